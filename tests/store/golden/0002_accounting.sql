CREATE TABLE IF NOT EXISTS `shadow`.`accounting_local` ON CLUSTER 'shadow_cluster'
(
    experiment         LowCardinality(String),
    config_hash        LowCardinality(String),
    worker             LowCardinality(String),
    boot_id            LowCardinality(String),
    arm                LowCardinality(String),
    counter            LowCardinality(String),
    reason             LowCardinality(String),
    value              UInt64,
    at                 DateTime64(9, 'UTC'),
    sequence           UInt64
)
ENGINE = ReplicatedReplacingMergeTree(sequence)
ORDER BY (experiment, worker, boot_id, arm, counter, reason)
SETTINGS replicated_deduplication_window_seconds = 604800, replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS `shadow`.`accounting` ON CLUSTER 'shadow_cluster'
AS `shadow`.`accounting_local`
ENGINE = Distributed('shadow_cluster', 'shadow', 'accounting_local', sipHash64(experiment));

CREATE TABLE IF NOT EXISTS `shadow`.`workers_local` ON CLUSTER 'shadow_cluster'
(
    experiment         LowCardinality(String),
    config_hash        LowCardinality(String),
    worker             LowCardinality(String),
    boot_id            LowCardinality(String),
    at                 DateTime64(9, 'UTC'),
    high_sequence      UInt64,
    dropped_sequences  UInt64,
    low_water          Nullable(DateTime64(9, 'UTC')),
    final              UInt8,
    sequence           UInt64
)
ENGINE = ReplicatedReplacingMergeTree(sequence)
ORDER BY (experiment, worker, boot_id)
SETTINGS replicated_deduplication_window_seconds = 604800, replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS `shadow`.`workers` ON CLUSTER 'shadow_cluster'
AS `shadow`.`workers_local`
ENGINE = Distributed('shadow_cluster', 'shadow', 'workers_local', sipHash64(experiment));
