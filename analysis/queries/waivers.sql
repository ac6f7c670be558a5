-- The newest waiver of every metric of one candidate.
SELECT
    metric,
    argMax(waived_by, at) AS who,
    argMax(reason, at) AS why,
    toUnixTimestamp64Nano(assumeNotNull(argMax(until, at))) AS until_ns
FROM waivers
WHERE experiment = {experiment:String} AND candidate = {arm:String} AND until IS NOT NULL
GROUP BY metric
ORDER BY metric
