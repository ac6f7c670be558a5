-- Two more shares of a pair: errors that came inside of a stream, answers cut at their length limit.
ALTER TABLE pairs
    ADD COLUMN IF NOT EXISTS in_band_error Nullable(UInt8),
    ADD COLUMN IF NOT EXISTS reference_in_band_error Nullable(UInt8),
    ADD COLUMN IF NOT EXISTS cut_at_length Nullable(UInt8),
    ADD COLUMN IF NOT EXISTS reference_cut_at_length Nullable(UInt8);
