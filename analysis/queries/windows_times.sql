-- Windows of times from the pairs of one build. Bin b holds x with floor(ln(x) / 0.005) = b; d is
-- ln(x / reference x), clipped to ±ln 10. A pair that failed on both sides says nothing of time.
-- A request's copies weigh as much as one: so they enter every sum as their mean, and n counts requests.
-- Every metric has its row, also with n = 0, so that a window that is rewritten is rewritten whole.
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
    tupleElement(arraySort(groupArrayIf((bin, weight), NOT second AND bin < 2147483647)) AS here, 1), here.2,
    tupleElement(arraySort(groupArrayIf((bin, weight), second AND bin < 2147483647)) AS there, 1), there.2,
    sumIf(weight, NOT second AND bin = 2147483647), sumIf(weight, second AND bin = 2147483647),
    toUInt64(ceil(sum(sums.1) / {copies:UInt16})), sum(sums.2), sum(sums.3) * {copies:UInt16}, sum(sums.4), sum(sums.5),
    sum(sums.6), sum(sums.7), sum(sums.8), sum(sums.7),
    0, 0, 0, {version:UInt64}
FROM
(
    -- a row a bin of one side; the sums over pairs ride on the first side's rows
    WITH
        log(10) AS most,
        2147483647 AS beyond,
        multiIf(isInfinite(x), most, isInfinite(y), -most, greatest(-most, least(most, log(x / y)))) AS d,
        usable AND isFinite(x) AND isFinite(y) AS finite
    SELECT
        reference_arm, start, metric,
        side.1 AS second,
        toInt32(if(isFinite(side.2) AND usable, floor(log(side.2) / 0.005), beyond)) AS bin,
        sumIf(w, usable) AS weight,
        tuple(
            countIf(usable AND NOT second),
            sumIf(w, usable AND NOT second),
            sumIf(w * w, usable AND NOT second),
            sumIf(w * d, usable AND NOT second),
            sumIf(w * d * d, usable AND NOT second),
            sumIf(w * log(x), finite AND NOT second),
            sumIf(w, finite AND NOT second),
            sumIf(w * log(y), finite AND NOT second)
        ) AS sums
    FROM
    (
        SELECT
            reference_arm, weight / {copies:UInt16} AS w, measure.1 AS metric,
            intDiv(toUnixTimestamp64Nano(arrived_at), {seconds:Int64} * 1000000000) * {seconds:Int64} AS start,
            -- a clock cannot have seen less than a nanosecond
            greatest(ifNull(measure.2, 1), 0.000001) AS x,
            greatest(ifNull(measure.3, 1), 0.000001) AS y,
            excluded = '' AND measure.2 IS NOT NULL AND measure.3 IS NOT NULL
                AND NOT (isInfinite(x) AND isInfinite(y)) AS usable
        FROM pairs
        ARRAY JOIN
        [
            ('ttft_any', ttft_any_ms, reference_ttft_any_ms),
            ('ttft_content', ttft_content_ms, reference_ttft_content_ms),
            ('ttft_answer', ttft_answer_ms, reference_ttft_answer_ms),
            ('e2e', e2e_ms, reference_e2e_ms),
            ('decode', decode_ms, reference_decode_ms),
            ('tpot', tpot_ms, reference_tpot_ms),
            ('itl_mean', itl_mean_ms, reference_itl_mean_ms),
            ('itl_p50', itl_p50_ms, reference_itl_p50_ms),
            ('itl_p95', itl_p95_ms, reference_itl_p95_ms),
            ('itl_p99', itl_p99_ms, reference_itl_p99_ms),
            ('itl_max', itl_max_ms, reference_itl_max_ms),
            ('server_queue', server_queue_ms, reference_server_queue_ms),
            ('server_prefill', server_prefill_ms, reference_server_prefill_ms),
            ('server_ttft', server_ttft_ms, reference_server_ttft_ms),
            ('server_tpot', server_tpot_ms, reference_server_tpot_ms)
        ] AS measure
        WHERE experiment = {experiment:String}
            AND comparison = {comparison:String}
            AND arm = {arm:String}
            AND probe = 'none'
            AND version = {version:UInt64}
            AND arrived_at >= fromUnixTimestamp64Nano({from_ns:Int64}, 'UTC')
            AND arrived_at < fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
    )
    ARRAY JOIN [(false, x), (true, y)] AS side
    GROUP BY reference_arm, start, metric, second, bin
)
GROUP BY reference_arm, start, metric
-- a row a bin and side of each pair at worst: beyond this it is grouped on disk
SETTINGS max_bytes_before_external_group_by = 268435456
