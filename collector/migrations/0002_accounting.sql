-- Cumulative counters: the newest record of a worker and boot wins.
CREATE TABLE IF NOT EXISTS accounting
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
ENGINE = ReplacingMergeTree(sequence)
ORDER BY (experiment, worker, boot_id, arm, counter, reason)
SETTINGS non_replicated_deduplication_window = 10000;

-- How far each worker and boot has come: what closes windows.
CREATE TABLE IF NOT EXISTS workers
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
ENGINE = ReplacingMergeTree(sequence)
ORDER BY (experiment, worker, boot_id)
SETTINGS non_replicated_deduplication_window = 10000;
