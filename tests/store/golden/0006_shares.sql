ALTER TABLE `shadow`.`pairs_local` ON CLUSTER 'shadow_cluster'
    ADD COLUMN IF NOT EXISTS in_band_error Nullable(UInt8),
    ADD COLUMN IF NOT EXISTS reference_in_band_error Nullable(UInt8),
    ADD COLUMN IF NOT EXISTS cut_at_length Nullable(UInt8),
    ADD COLUMN IF NOT EXISTS reference_cut_at_length Nullable(UInt8);

ALTER TABLE `shadow`.`pairs` ON CLUSTER 'shadow_cluster'
    ADD COLUMN IF NOT EXISTS in_band_error Nullable(UInt8),
    ADD COLUMN IF NOT EXISTS reference_in_band_error Nullable(UInt8),
    ADD COLUMN IF NOT EXISTS cut_at_length Nullable(UInt8),
    ADD COLUMN IF NOT EXISTS reference_cut_at_length Nullable(UInt8);
