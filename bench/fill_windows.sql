-- Windows of 60 s of one contrast, {pairs} pairs over {windows} of them, as the analysis would have stored
-- them: log-histograms of 600 bins a side and their sums, 2 % slower, seeded by the window's number.
INSERT INTO windows
(
    experiment, comparison, candidate, reference_arm, replica, probe, `window`, seconds, metric,
    bins, counts, reference_bins, reference_counts, infinite, reference_infinite,
    n, sum_w, sum_w2, sum_wd, sum_wd2,
    numerator, denominator, reference_numerator, reference_denominator,
    n_plus, n_minus, n_zero, version
)
WITH
    (key, salt) -> (cityHash64(key, salt) + 1) / 18446744073709551617. AS uniform,
    metric IN ('failure', 'mismatch') AS share,
    metric = 'tokens_per_s' AS ratio,
    toUInt64({pairs:UInt64} / {windows:UInt64}) AS held,
    tuple(number, metric, {arm:String}, {reference:String}) AS key,
    if(share OR ratio, [], range(600)) AS steps,
    arrayMap(i -> toInt32(i + 600), steps) AS places,
    (salt, shift) -> arrayMap(
        i -> toFloat64(round(held * 0.00399 * exp(-pow((i - 300 - shift) * 0.01, 2) / 2) * (0.9 + 0.2 * uniform(tuple(key, i), salt)))),
        steps
    ) AS drawn,
    0.02 * (uniform(key, 3) + uniform(key, 4)) AS slower,
    toUInt64(held * 0.01 * uniform(key, 5)) AS plus,
    toUInt64(held * 0.01 * uniform(key, 6)) AS minus
SELECT
    'bench', {comparison:String}, {arm:String}, {reference:String}, 0, 'none',
    toDateTime64({begin_s:Int64} + number * 60, 9, 'UTC'), 60, metric,
    places, drawn(1, 4), places, drawn(2, 0), 0, 0,
    held, held, held,
    if(share, toFloat64(plus) - toFloat64(minus), held * slower), if(share, plus + minus, held * 0.04),
    multiIf(share, plus, ratio, held * 200 * (1 - slower), held * (4.5 + slower)),
    multiIf(ratio, held * 4., toFloat64(held)),
    multiIf(share, minus, ratio, held * 200., held * 4.5),
    multiIf(ratio, held * 4., toFloat64(held)),
    if(share, plus, 0), if(share, minus, 0), if(share, held - plus - minus, 0), 1
FROM numbers({windows:UInt64})
ARRAY JOIN {metrics:Array(String)} AS metric
SETTINGS max_insert_block_size = 2000, max_block_size = 500
