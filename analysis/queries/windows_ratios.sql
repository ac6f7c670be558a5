-- Windows of ratios of sums from the pairs of one build: tokens by seconds, tokens by answers,
-- events by reads.
-- A request's copies weigh as much as one: so they enter every sum as their mean, and n counts requests.
-- A failed answer adds nothing to either sum, so its pair is left out; failures are counted apart.
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
    toUInt64(ceil(countIf(usable) / {copies:UInt16})), sumIf(w, usable), sumIf(w * w, usable) * {copies:UInt16}, 0, 0,
    sumIf(w * measure.2, usable), sumIf(w * measure.3, usable),
    sumIf(w * measure.4, usable), sumIf(w * measure.5, usable),
    0, 0, 0, {version:UInt64}
FROM
(
    SELECT
        reference_arm, weight / {copies:UInt16} AS w, measure, measure.1 AS metric,
        intDiv(toUnixTimestamp64Nano(arrived_at), {seconds:Int64} * 1000000000) * {seconds:Int64} AS start,
        excluded = '' AND failure = 0 AND reference_failure = 0
            AND measure.2 >= 0 AND measure.3 > 0 AND measure.4 >= 0 AND measure.5 > 0 AS usable
    FROM pairs
    ARRAY JOIN
    [
        ('tokens_per_s', output_tokens - 1, decode_ms / 1000, reference_output_tokens - 1, reference_decode_ms / 1000),
        ('output_tokens', toInt64(output_tokens), 1., toInt64(reference_output_tokens), 1.),
        ('events_per_read', toInt64(events), reads, toInt64(reference_events), reference_reads)
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
