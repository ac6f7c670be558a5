-- Pairs of one build, a row a window and reference: judged, excluded by reason, and judged ones of
-- which some metrics are undefined, by reason. Every copy counts. Greedy probes are counted apart, beside
-- the pairs against the primary: there is one a copy.
SELECT
    intDiv(toUnixTimestamp64Nano(arrived_at), {seconds:Int64} * 1000000000) * {seconds:Int64} AS start_s,
    if(probe = 'none', toString(reference_arm), {primary:String}) AS reference,
    countIf(excluded = '' AND probe = 'none') AS judged,
    sumMapIf(map(toString(excluded), toUInt64(1)), excluded != '' AND probe = 'none') AS left_out,
    sumMapIf(mapFromArrays(`undefined`, arrayMap(reason -> toUInt64(1), `undefined`)), excluded = '') AS unmeasured,
    countIf(excluded = '' AND probe != 'none') AS probes,
    sumMapIf(map(toString(excluded), toUInt64(1)), excluded != '' AND probe != 'none') AS probes_left_out
FROM pairs
WHERE experiment = {experiment:String}
    AND comparison = {comparison:String}
    AND arm = {arm:String}
    AND version = {version:UInt64}
    AND arrived_at >= fromUnixTimestamp64Nano({from_ns:Int64}, 'UTC')
    AND arrived_at < fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
GROUP BY start_s, reference
