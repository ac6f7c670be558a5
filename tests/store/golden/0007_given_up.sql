ALTER TABLE `shadow`.`dead_letters_local` ON CLUSTER 'shadow_cluster'
    ADD COLUMN IF NOT EXISTS experiment LowCardinality(String),
    ADD COLUMN IF NOT EXISTS worker LowCardinality(String),
    ADD COLUMN IF NOT EXISTS boot_id LowCardinality(String),
    ADD COLUMN IF NOT EXISTS sequence UInt64;

ALTER TABLE `shadow`.`dead_letters` ON CLUSTER 'shadow_cluster'
    ADD COLUMN IF NOT EXISTS experiment LowCardinality(String),
    ADD COLUMN IF NOT EXISTS worker LowCardinality(String),
    ADD COLUMN IF NOT EXISTS boot_id LowCardinality(String),
    ADD COLUMN IF NOT EXISTS sequence UInt64;
