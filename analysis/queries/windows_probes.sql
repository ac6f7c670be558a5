-- Windows of what greedy probes tell, from the pairs of one build; d is the difference of both sides.
INSERT INTO windows
(
    experiment, comparison, candidate, reference_arm, replica, probe, `window`, seconds, metric,
    bins, counts, reference_bins, reference_counts, infinite, reference_infinite,
    n, sum_w, sum_w2, sum_wd, sum_wd2,
    numerator, denominator, reference_numerator, reference_denominator,
    n_plus, n_minus, n_zero, version
)
SELECT
    {experiment:String}, {comparison:String}, {arm:String}, reference_arm, 0, probe,
    fromUnixTimestamp64Nano(start * 1000000000, 'UTC'), toUInt32({seconds:Int64}), metric,
    [], [], [], [], 0, 0,
    countIf(usable), sumIf(w, usable), sumIf(w * w, usable),
    sumIf(w * (x - y), usable), sumIf(w * abs(x - y), usable),
    sumIf(w * x, usable), sumIf(w, usable), sumIf(w * y, usable), sumIf(w, usable),
    countIf(usable AND x > y), countIf(usable AND x < y), countIf(usable AND x = y),
    {version:UInt64}
FROM
(
    SELECT
        reference_arm, probe, weight AS w, measure.1 AS metric,
        intDiv(toUnixTimestamp64Nano(arrived_at), {seconds:Int64} * 1000000000) * {seconds:Int64} AS start,
        toFloat64(ifNull(measure.2, 0)) AS x,
        toFloat64(ifNull(measure.3, 0)) AS y,
        excluded = '' AND measure.2 IS NOT NULL AND measure.3 IS NOT NULL AS usable
    FROM pairs
    ARRAY JOIN
    [
        ('probe_mismatch', toInt64(mismatch), toInt64(reference_mismatch)),
        ('probe_cut_at_length', toInt64(cut_at_length), toInt64(reference_cut_at_length)),
        ('probe_output_tokens', toInt64(output_tokens), toInt64(reference_output_tokens))
    ] AS measure
    WHERE experiment = {experiment:String}
        AND comparison = {comparison:String}
        AND arm = {arm:String}
        AND version = {version:UInt64}
        AND probe != 'none'
        AND arrived_at >= fromUnixTimestamp64Nano({from_ns:Int64}, 'UTC')
        AND arrived_at < fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
)
GROUP BY reference_arm, probe, start, metric
