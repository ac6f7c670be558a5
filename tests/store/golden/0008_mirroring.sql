ALTER TABLE `shadow`.`exchanges_local` ON CLUSTER 'shadow_cluster'
    ADD COLUMN IF NOT EXISTS mirroring LowCardinality(String) DEFAULT 'on';

ALTER TABLE `shadow`.`exchanges` ON CLUSTER 'shadow_cluster'
    ADD COLUMN IF NOT EXISTS mirroring LowCardinality(String) DEFAULT 'on';
