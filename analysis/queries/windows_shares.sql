-- Windows of shares from the pairs of one build: how many are bad on this side, on that, on one.
-- d is the difference of both sides, 0 or 1 each.
-- A request's copies weigh as much as one: so they enter every sum as their mean, and n counts requests.
-- n_plus, n_minus and n_zero count copies.
INSERT INTO windows
(
    experiment, comparison, candidate, reference_arm, replica, probe, `window`, seconds, metric,
    bins, counts, reference_bins, reference_counts, infinite, reference_infinite,
    n, sum_w, sum_w2, sum_wd, sum_wd2,
    numerator, denominator, reference_numerator, reference_denominator,
    n_plus, n_minus, n_zero, version
)
SELECT
    {experiment:String}, {comparison:String}, {arm:String}, reference_arm, 0, 'none',
    fromUnixTimestamp64Nano(start * 1000000000, 'UTC'), toUInt32({seconds:Int64}), metric,
    [], [], [], [], 0, 0,
    toUInt64(ceil(countIf(usable) / {copies:UInt16})), sumIf(w, usable), sumIf(w * w, usable) * {copies:UInt16},
    sumIf(w * (toInt8(bad) - toInt8(reference_bad)), usable), sumIf(w * (bad != reference_bad), usable),
    sumIf(w * bad, usable), sumIf(w, usable), sumIf(w * reference_bad, usable), sumIf(w, usable),
    countIf(usable AND bad AND NOT reference_bad),
    countIf(usable AND NOT bad AND reference_bad),
    countIf(usable AND bad = reference_bad),
    {version:UInt64}
FROM
(
    SELECT
        reference_arm, weight / {copies:UInt16} AS w, measure.1 AS metric,
        intDiv(toUnixTimestamp64Nano(arrived_at), {seconds:Int64} * 1000000000) * {seconds:Int64} AS start,
        ifNull(measure.2, 0) AS bad,
        ifNull(measure.3, 0) AS reference_bad,
        -- what failed on the primary says nothing of time or text, but failures are counted on both
        -- sides alike: else an equal candidate would only ever add to them
        (excluded = '' OR excluded = 'primary_failed' AND metric IN ('failure', 'in_band_error'))
            AND measure.2 IS NOT NULL AND measure.3 IS NOT NULL AS usable
    FROM pairs
    ARRAY JOIN
    [
        ('failure', failure, reference_failure),
        ('in_band_error', in_band_error, reference_in_band_error),
        ('cut_at_length', cut_at_length, reference_cut_at_length),
        ('mismatch', mismatch, reference_mismatch)
    ] AS measure
    WHERE experiment = {experiment:String}
        AND comparison = {comparison:String}
        AND arm = {arm:String}
        AND probe = 'none'
        AND version = {version:UInt64}
        AND arrived_at >= fromUnixTimestamp64Nano({from_ns:Int64}, 'UTC')
        AND arrived_at < fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
)
GROUP BY reference_arm, start, metric
