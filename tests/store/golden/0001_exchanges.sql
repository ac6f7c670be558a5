CREATE TABLE IF NOT EXISTS `shadow`.`exchanges_local` ON CLUSTER 'shadow_cluster'
(
    experiment         LowCardinality(String),
    config_hash        LowCardinality(String),
    arrived_at         DateTime64(9, 'UTC'),
    started_at         DateTime64(9, 'UTC'),
    pair_id            String,
    arm                LowCardinality(String),
    role               LowCardinality(String),
    replica            UInt16,
    probe              LowCardinality(String),
    attach             LowCardinality(String),
    worker             LowCardinality(String),
    boot_id            LowCardinality(String),
    sequence           UInt64,
    method             LowCardinality(String),
    path               LowCardinality(String),
    status             Nullable(UInt16),
    transport          LowCardinality(String),
    outcome            LowCardinality(String),
    error              String,
    -- the request
    model              LowCardinality(String),
    streamed           Nullable(Bool),
    max_tokens         Nullable(UInt32),
    temperature        Nullable(Float64),
    request_bytes      UInt64,
    turns              Nullable(UInt32),
    tools              Nullable(UInt32),
    conversation       String,
    request_changes    Array(LowCardinality(String)),
    subject            String,
    weight             Float64,
    in_flight          UInt32,
    -- the answer
    dialect            LowCardinality(String),
    model_echoed       LowCardinality(String),
    fingerprint        LowCardinality(String),
    finish_reason      LowCardinality(String),
    -- 64 bits of BLAKE2b of the comparable text (Unicode NFC, white space collapsed and trimmed) of all
    -- choices; null where there is no text to compare
    text_hash          Nullable(UInt64),
    text_chars         Nullable(UInt32),
    prompt_tokens      Nullable(UInt32),
    cached_tokens      Nullable(UInt32),
    output_tokens      Nullable(UInt32),
    token_source       LowCardinality(String),
    captured_bytes     UInt64,
    truncated_bytes    UInt64,
    events             UInt32,
    events_per_read    Nullable(Float64),
    -- measures: names, units and definitions in analysis/metrics.toml
    ttft_any_ms        Nullable(Float64),
    ttft_content_ms    Nullable(Float64),
    ttft_answer_ms     Nullable(Float64),
    e2e_ms             Nullable(Float64),
    decode_ms          Nullable(Float64),
    tpot_ms            Nullable(Float64),
    itl_mean_ms        Nullable(Float64),
    itl_p50_ms         Nullable(Float64),
    itl_p95_ms         Nullable(Float64),
    itl_p99_ms         Nullable(Float64),
    itl_max_ms         Nullable(Float64),
    tokens_per_s       Nullable(Float64),
    client_wait_ms     Float64,
    failure            Nullable(UInt8),
    version            UInt64
)
ENGINE = ReplicatedReplacingMergeTree(version)
PARTITION BY toYYYYMMDD(arrived_at)
ORDER BY (experiment, toStartOfHour(arrived_at), pair_id, arm, replica, probe)
SETTINGS replicated_deduplication_window_seconds = 604800, replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS `shadow`.`exchanges` ON CLUSTER 'shadow_cluster'
AS `shadow`.`exchanges_local`
ENGINE = Distributed('shadow_cluster', 'shadow', 'exchanges_local', sipHash64(pair_id));

CREATE TABLE IF NOT EXISTS `shadow`.`bodies_local` ON CLUSTER 'shadow_cluster'
(
    experiment         LowCardinality(String),
    arrived_at         DateTime64(9, 'UTC'),
    pair_id            String,
    arm                LowCardinality(String),
    replica            UInt16,
    probe              LowCardinality(String),
    subject            String,
    request            String CODEC(ZSTD(3)),   -- the client's body; on the primary's row only
    answer             String CODEC(ZSTD(3)),   -- decoded: JSON list of choices
    raw                String CODEC(ZSTD(3)),   -- the answer's bytes; with capture: full only
    headers            String CODEC(ZSTD(3)),   -- JSON list of [name, value], redacted
    marks              Array(Tuple(UInt64, UInt64)) CODEC(ZSTD(3)),
    version            UInt64
)
ENGINE = ReplicatedReplacingMergeTree(version)
PARTITION BY toYYYYMMDD(arrived_at)
ORDER BY (experiment, toStartOfHour(arrived_at), pair_id, arm, replica, probe)
SETTINGS replicated_deduplication_window_seconds = 604800, replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS `shadow`.`bodies` ON CLUSTER 'shadow_cluster'
AS `shadow`.`bodies_local`
ENGINE = Distributed('shadow_cluster', 'shadow', 'bodies_local', sipHash64(pair_id));

CREATE TABLE IF NOT EXISTS `shadow`.`dead_letters_local` ON CLUSTER 'shadow_cluster'
(
    at                 DateTime64(9, 'UTC'),
    source             String,                  -- partition:offset
    reason             String,
    key                String,
    value              String CODEC(ZSTD(3))    -- the original bytes
)
ENGINE = ReplicatedMergeTree
PARTITION BY toYYYYMMDD(at)
ORDER BY (at, source)
SETTINGS replicated_deduplication_window_seconds = 604800, replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS `shadow`.`dead_letters` ON CLUSTER 'shadow_cluster'
AS `shadow`.`dead_letters_local`
ENGINE = Distributed('shadow_cluster', 'shadow', 'dead_letters_local', sipHash64(source));
