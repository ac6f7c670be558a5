CREATE TABLE IF NOT EXISTS `shadow`.`purges_local` ON CLUSTER 'shadow_cluster'
(
    subject            String,                  -- as records carry it: a salted hash
    at                 DateTime64(9, 'UTC'),
    measures           UInt8
)
ENGINE = ReplicatedReplacingMergeTree(at)
ORDER BY (subject, measures)
SETTINGS replicated_deduplication_window_seconds = 604800, replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS `shadow`.`purges` ON CLUSTER 'shadow_cluster'
AS `shadow`.`purges_local`
ENGINE = Distributed('shadow_cluster', 'shadow', 'purges_local', sipHash64(subject));
