ALTER TABLE `shadow`.`exchanges_local` ON CLUSTER 'shadow_cluster'
    ADD COLUMN IF NOT EXISTS server_queue_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS server_prefill_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS server_ttft_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS server_tpot_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS unreadable_events UInt32,   -- data events that were no JSON
    ADD COLUMN IF NOT EXISTS damaged_events UInt32;

ALTER TABLE `shadow`.`exchanges` ON CLUSTER 'shadow_cluster'
    ADD COLUMN IF NOT EXISTS server_queue_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS server_prefill_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS server_ttft_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS server_tpot_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS unreadable_events UInt32,   -- data events that were no JSON
    ADD COLUMN IF NOT EXISTS damaged_events UInt32;

ALTER TABLE `shadow`.`pairs_local` ON CLUSTER 'shadow_cluster'
    ADD COLUMN IF NOT EXISTS server_queue_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS reference_server_queue_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS server_prefill_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS reference_server_prefill_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS server_ttft_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS reference_server_ttft_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS server_tpot_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS reference_server_tpot_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS events UInt32,
    ADD COLUMN IF NOT EXISTS reference_events UInt32,
    ADD COLUMN IF NOT EXISTS reads Nullable(Float64),    -- distinct reads that completed an event
    ADD COLUMN IF NOT EXISTS reference_reads Nullable(Float64),
    -- why some metrics of a judged pair are undefined: token_source, client_wait
    ADD COLUMN IF NOT EXISTS `undefined` Array(String);

ALTER TABLE `shadow`.`pairs` ON CLUSTER 'shadow_cluster'
    ADD COLUMN IF NOT EXISTS server_queue_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS reference_server_queue_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS server_prefill_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS reference_server_prefill_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS server_ttft_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS reference_server_ttft_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS server_tpot_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS reference_server_tpot_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS events UInt32,
    ADD COLUMN IF NOT EXISTS reference_events UInt32,
    ADD COLUMN IF NOT EXISTS reads Nullable(Float64),    -- distinct reads that completed an event
    ADD COLUMN IF NOT EXISTS reference_reads Nullable(Float64),
    -- why some metrics of a judged pair are undefined: token_source, client_wait
    ADD COLUMN IF NOT EXISTS `undefined` Array(String);

ALTER TABLE `shadow`.`window_totals_local` ON CLUSTER 'shadow_cluster'
    ADD COLUMN IF NOT EXISTS `undefined` Map(String, UInt64);

ALTER TABLE `shadow`.`window_totals` ON CLUSTER 'shadow_cluster'
    ADD COLUMN IF NOT EXISTS `undefined` Map(String, UInt64);
