-- What engines say of their own times, and how much of an answer could not be read.
ALTER TABLE exchanges
    ADD COLUMN IF NOT EXISTS server_queue_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS server_prefill_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS server_ttft_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS server_tpot_ms Nullable(Float64),
    ADD COLUMN IF NOT EXISTS unreadable_events UInt32,   -- data events that were no JSON
    ADD COLUMN IF NOT EXISTS damaged_events UInt32;      -- data events with bytes that are no UTF-8

ALTER TABLE pairs
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

ALTER TABLE window_totals
    ADD COLUMN IF NOT EXISTS `undefined` Map(String, UInt64);   -- judged pairs by such a reason
