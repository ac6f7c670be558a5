-- How many exchanges every window holds, and how many of each arm; redelivered ones count once. And
-- whether any is a greedy probe.
SELECT
    start AS start_s,
    sum(held) AS exchanges,
    sumMap(map(toString(arm), held)) AS by_arm,
    max(any_probe) AS probed
FROM
(
    SELECT
        intDiv(toUnixTimestamp64Nano(arrived_at), {seconds:Int64} * 1000000000) * {seconds:Int64} AS start,
        arm,
        groupBitmap(sequence) AS held,
        max(probe != 'none') AS any_probe
    FROM exchanges
    WHERE experiment = {experiment:String}
        AND config_hash = {config_hash:String}
        AND arrived_at >= fromUnixTimestamp64Nano({from_ns:Int64}, 'UTC')
        AND arrived_at < fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
    GROUP BY start, worker, boot_id, arm
)
GROUP BY start
ORDER BY start
