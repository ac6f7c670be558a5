ALTER TABLE `shadow`.`exchanges_local` ON CLUSTER 'shadow_cluster'
    ADD COLUMN IF NOT EXISTS text_key LowCardinality(String),
    ADD COLUMN IF NOT EXISTS redactions Map(String, UInt32);

ALTER TABLE `shadow`.`exchanges` ON CLUSTER 'shadow_cluster'
    ADD COLUMN IF NOT EXISTS text_key LowCardinality(String),
    ADD COLUMN IF NOT EXISTS redactions Map(String, UInt32);
