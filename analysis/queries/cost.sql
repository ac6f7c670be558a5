-- The primary's time to the first token with mirroring on and in shadow-off windows, a row a period:
-- each period has one window. Answers that failed have no such time.
SELECT
    toInt64(intDiv(toUnixTimestamp64Nano(arrived_at), {period_ns:Int64})) AS period,
    toFloat64(countIf(mirroring = 'on')) AS on_n,
    toFloat64(countIf(mirroring = 'off')) AS off_n,
    -- a period without either side has no logs: the sum over none of a Nullable is NULL
    ifNull(sumIf(log(ttft_any_ms), mirroring = 'on'), 0) AS on_logs,
    ifNull(sumIf(log(ttft_any_ms), mirroring = 'off'), 0) AS off_logs
FROM exchanges FINAL
WHERE experiment = {experiment:String}
    AND config_hash = {config_hash:String}
    AND arm = 'primary'
    AND replica = 0
    AND probe = 'none'
    AND mirroring IN ('on', 'off')
    AND failure = 0
    AND ttft_any_ms > 0
    AND arrived_at >= fromUnixTimestamp64Nano({from_ns:Int64}, 'UTC')
GROUP BY period
ORDER BY period
