-- Pairs of one build, a row a window and reference: judged, excluded by reason, and judged ones of
-- which some metrics are undefined, by reason.
SELECT
    intDiv(toUnixTimestamp64Nano(arrived_at), {seconds:Int64} * 1000000000) * {seconds:Int64} AS start_s,
    toString(reference_arm) AS reference,
    countIf(excluded = '') AS judged,
    sumMapIf(map(toString(excluded), toUInt64(1)), excluded != '') AS left_out,
    sumMapIf(mapFromArrays(`undefined`, arrayMap(reason -> toUInt64(1), `undefined`)), excluded = '') AS unmeasured
FROM pairs
WHERE experiment = {experiment:String}
    AND comparison = {comparison:String}
    AND arm = {arm:String}
    AND version = {version:UInt64}
    AND replica = 0
    AND probe = 'none'
    AND arrived_at >= fromUnixTimestamp64Nano({from_ns:Int64}, 'UTC')
    AND arrived_at < fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
GROUP BY start_s, reference
