-- How many greedy probes of an arm windows of [from, until) hold; redelivered ones count once.
SELECT toUInt64(sum(held)) AS probes
FROM
(
    SELECT groupBitmap(sequence) AS held
    FROM exchanges
    WHERE experiment = {experiment:String}
        AND config_hash = {config_hash:String}
        AND arm = {arm:String}
        AND probe != 'none'
        AND arrived_at >= fromUnixTimestamp64Nano({from_ns:Int64}, 'UTC')
        AND arrived_at < fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
    GROUP BY worker, boot_id
)
