ALTER TABLE `shadow`.`window_totals_local` ON CLUSTER 'shadow_cluster'
    ADD COLUMN IF NOT EXISTS probes UInt64,
    ADD COLUMN IF NOT EXISTS probes_excluded Map(String, UInt64);

ALTER TABLE `shadow`.`window_totals` ON CLUSTER 'shadow_cluster'
    ADD COLUMN IF NOT EXISTS probes UInt64,
    ADD COLUMN IF NOT EXISTS probes_excluded Map(String, UInt64);
