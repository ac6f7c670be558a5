-- Judged pairs of one contrast from an instant on, in the version that counts; `columns` are added.
SELECT
    toFloat64(toUnixTimestamp64Nano(arrived_at)) / 1e9 AS at_s,
    weight
    -- columns
FROM pairs FINAL
WHERE experiment = {experiment:String}
    AND comparison = {comparison:String}
    AND arm = {arm:String}
    AND reference_arm = {reference:String}
    AND replica = 0
    AND probe = 'none'
    AND excluded = ''
    AND arrived_at >= fromUnixTimestamp64Nano({from_ns:Int64}, 'UTC')
ORDER BY arrived_at, pair_id
