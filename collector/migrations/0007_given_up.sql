-- Which exchange a dead letter was, where its bytes tell and its row in `exchanges` is missing: its
-- sequence is neither held nor lost. One exchange may have several letters: count the distinct.
ALTER TABLE dead_letters
    ADD COLUMN IF NOT EXISTS experiment LowCardinality(String),
    ADD COLUMN IF NOT EXISTS worker LowCardinality(String),
    ADD COLUMN IF NOT EXISTS boot_id LowCardinality(String),
    ADD COLUMN IF NOT EXISTS sequence UInt64;
