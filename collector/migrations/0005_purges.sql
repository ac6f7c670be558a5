-- Whose records are to be forgotten: a redelivered record of a purged subject stays without its text.
-- It holds for what had arrived by `at`; `measures` 1: figures too.
CREATE TABLE IF NOT EXISTS purges
(
    subject            String,                  -- as records carry it: a salted hash
    at                 DateTime64(9, 'UTC'),
    measures           UInt8
)
ENGINE = ReplacingMergeTree(at)
ORDER BY (subject, measures)
SETTINGS non_replicated_deduplication_window = 10000;
