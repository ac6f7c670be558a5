-- text_key: by which secret text_hash was made, where that is no plain hash (capture: measures); hashes
-- of two secrets say nothing of each other. redactions: what was replaced in the record, by rule.
ALTER TABLE exchanges
    ADD COLUMN IF NOT EXISTS text_key LowCardinality(String),
    ADD COLUMN IF NOT EXISTS redactions Map(String, UInt32);
