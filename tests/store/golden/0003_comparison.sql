CREATE TABLE IF NOT EXISTS `shadow`.`pairs_local` ON CLUSTER 'shadow_cluster'
(
    experiment         LowCardinality(String),
    comparison         LowCardinality(String),
    arrived_at         DateTime64(9, 'UTC'),
    pair_id            String,
    arm                LowCardinality(String),
    reference_arm      LowCardinality(String),
    replica            UInt16,
    probe              LowCardinality(String),
    -- empty for a judged pair, else why it is none: warm_up, primary_failed, client_cancelled, …
    excluded           LowCardinality(String),
    weight             Float64,
    -- segments
    model              LowCardinality(String),
    path               LowCardinality(String),
    streamed           Nullable(Bool),
    prompt_tokens      Nullable(UInt32),
    output_tokens      Nullable(UInt32),
    reference_output_tokens Nullable(UInt32),
    cached_tokens      Nullable(UInt32),
    -- each latency twice: this arm's and the reference's; a failed answer's is +inf, an undefined one null
    ttft_any_ms        Nullable(Float64),
    reference_ttft_any_ms Nullable(Float64),
    ttft_content_ms    Nullable(Float64),
    reference_ttft_content_ms Nullable(Float64),
    ttft_answer_ms     Nullable(Float64),
    reference_ttft_answer_ms Nullable(Float64),
    e2e_ms             Nullable(Float64),
    reference_e2e_ms   Nullable(Float64),
    decode_ms          Nullable(Float64),
    reference_decode_ms Nullable(Float64),
    tpot_ms            Nullable(Float64),
    reference_tpot_ms  Nullable(Float64),
    itl_mean_ms        Nullable(Float64),
    reference_itl_mean_ms Nullable(Float64),
    itl_p50_ms         Nullable(Float64),
    reference_itl_p50_ms Nullable(Float64),
    itl_p95_ms         Nullable(Float64),
    reference_itl_p95_ms Nullable(Float64),
    itl_p99_ms         Nullable(Float64),
    reference_itl_p99_ms Nullable(Float64),
    itl_max_ms         Nullable(Float64),
    reference_itl_max_ms Nullable(Float64),
    failure            Nullable(UInt8),
    reference_failure  Nullable(UInt8),
    -- against the primary's text, on both sides: their difference is the excess over the control
    mismatch           Nullable(UInt8),
    reference_mismatch Nullable(UInt8),
    version            UInt64
)
ENGINE = ReplicatedReplacingMergeTree(version)
PARTITION BY toYYYYMMDD(arrived_at)
ORDER BY (experiment, toStartOfHour(arrived_at), pair_id, arm, reference_arm, replica, probe)
SETTINGS replicated_deduplication_window_seconds = 604800, replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS `shadow`.`pairs` ON CLUSTER 'shadow_cluster'
AS `shadow`.`pairs_local`
ENGINE = Distributed('shadow_cluster', 'shadow', 'pairs_local', sipHash64(pair_id));

CREATE TABLE IF NOT EXISTS `shadow`.`windows_local` ON CLUSTER 'shadow_cluster'
(
    experiment         LowCardinality(String),
    comparison         LowCardinality(String),
    candidate          LowCardinality(String),
    reference_arm      LowCardinality(String),
    replica            UInt16,
    probe              LowCardinality(String),
    `window`           DateTime64(9, 'UTC'),
    seconds            UInt32,
    metric             LowCardinality(String),
    bins               Array(Int32),
    counts             Array(Float64),           -- this arm's weight in each bin
    reference_bins     Array(Int32),
    reference_counts   Array(Float64),
    infinite           Float64,                  -- weight beyond every bin (failed answers)
    reference_infinite Float64,
    n                  UInt64,                   -- pairs with the metric defined on both sides
    sum_w              Float64,
    sum_w2             Float64,
    sum_wd             Float64,                  -- d = ln(x / reference x), clipped to ±ln 10
    sum_wd2            Float64,
    -- ratio: sums to divide (tokens by seconds, tokens by answers); share: how many bad, of n;
    -- time: sum of w ln(x), and of w, over pairs that are finite on both sides
    numerator          Float64,
    denominator        Float64,
    reference_numerator Float64,
    reference_denominator Float64,
    n_plus             UInt64,                   -- binary: this arm only
    n_minus            UInt64,                   -- binary: the reference only
    n_zero             UInt64,                   -- binary: concordant
    version            UInt64
)
ENGINE = ReplicatedReplacingMergeTree(version)
PARTITION BY toYYYYMM(`window`)
ORDER BY (experiment, comparison, candidate, reference_arm, replica, probe, `window`, metric)
SETTINGS replicated_deduplication_window_seconds = 604800, replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS `shadow`.`windows` ON CLUSTER 'shadow_cluster'
AS `shadow`.`windows_local`
ENGINE = Distributed('shadow_cluster', 'shadow', 'windows_local', sipHash64(experiment));

CREATE TABLE IF NOT EXISTS `shadow`.`window_totals_local` ON CLUSTER 'shadow_cluster'
(
    experiment         LowCardinality(String),
    comparison         LowCardinality(String),
    candidate          LowCardinality(String),
    reference_arm      LowCardinality(String),
    `window`           DateTime64(9, 'UTC'),
    seconds            UInt32,
    exchanges          UInt64,                   -- of all arms, as stored when the window was built
    captured           UInt64,                   -- of the candidate
    pairs              UInt64,                   -- judged
    excluded           Map(String, UInt64),      -- by reason
    version            UInt64
)
ENGINE = ReplicatedReplacingMergeTree(version)
PARTITION BY toYYYYMM(`window`)
ORDER BY (experiment, comparison, candidate, reference_arm, `window`)
SETTINGS replicated_deduplication_window_seconds = 604800, replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS `shadow`.`window_totals` ON CLUSTER 'shadow_cluster'
AS `shadow`.`window_totals_local`
ENGINE = Distributed('shadow_cluster', 'shadow', 'window_totals_local', sipHash64(experiment));

CREATE TABLE IF NOT EXISTS `shadow`.`verdicts_local` ON CLUSTER 'shadow_cluster'
(
    at                 DateTime64(9, 'UTC'),
    experiment         LowCardinality(String),
    comparison         LowCardinality(String),
    candidate          LowCardinality(String),
    verdict            LowCardinality(String),
    reason             String,
    coverage           Nullable(Float64),
    config_hash        LowCardinality(String),
    policy_hash        LowCardinality(String),
    report             String CODEC(ZSTD(3))     -- this candidate's part of report.json
)
ENGINE = ReplicatedMergeTree
PARTITION BY toYYYYMM(at)
ORDER BY (experiment, candidate, at)
SETTINGS replicated_deduplication_window_seconds = 604800, replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS `shadow`.`verdicts` ON CLUSTER 'shadow_cluster'
AS `shadow`.`verdicts_local`
ENGINE = Distributed('shadow_cluster', 'shadow', 'verdicts_local', sipHash64(experiment));

CREATE TABLE IF NOT EXISTS `shadow`.`waivers_local` ON CLUSTER 'shadow_cluster'
(
    at                 DateTime64(9, 'UTC'),
    experiment         LowCardinality(String),
    candidate          LowCardinality(String),
    metric             String,
    waived_by          String,
    reason             String,
    until              Nullable(DateTime64(9, 'UTC'))
)
ENGINE = ReplicatedMergeTree
ORDER BY (experiment, candidate, at)
SETTINGS replicated_deduplication_window_seconds = 604800, replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS `shadow`.`waivers` ON CLUSTER 'shadow_cluster'
AS `shadow`.`waivers_local`
ENGINE = Distributed('shadow_cluster', 'shadow', 'waivers_local', sipHash64(experiment));

CREATE TABLE IF NOT EXISTS `shadow`.`events_local` ON CLUSTER 'shadow_cluster'
(
    at                 DateTime64(9, 'UTC'),
    experiment         LowCardinality(String),
    kind               LowCardinality(String),
    comparison         LowCardinality(String),
    candidate          LowCardinality(String),
    detail             String                    -- JSON
)
ENGINE = ReplicatedMergeTree
ORDER BY (experiment, at, kind)
SETTINGS replicated_deduplication_window_seconds = 604800, replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS `shadow`.`events` ON CLUSTER 'shadow_cluster'
AS `shadow`.`events_local`
ENGINE = Distributed('shadow_cluster', 'shadow', 'events_local', sipHash64(experiment));
