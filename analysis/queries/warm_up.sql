-- When the last pair of the warm-up arrived: the arm's N-th exchange since the comparison's start.
SELECT toUnixTimestamp64Nano(arrived_at) AS cutoff_ns
FROM exchanges FINAL
WHERE experiment = {experiment:String}
    AND config_hash = {config_hash:String}
    AND arm = {arm:String}
    AND replica = 0
    AND probe = 'none'
    AND arrived_at >= fromUnixTimestamp64Nano({from_ns:Int64}, 'UTC')
    AND arrived_at < fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
ORDER BY arrived_at, pair_id
LIMIT 1 OFFSET {before:UInt64}
