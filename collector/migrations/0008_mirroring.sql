-- What the mirror did when the request arrived: on, off (a shadow-off window), ending, after.
ALTER TABLE exchanges
    ADD COLUMN IF NOT EXISTS mirroring LowCardinality(String) DEFAULT 'on';
