-- What a comparison was rejected for: each set of critical metrics that failed in a reject, when it did
-- first. Where a precondition was broken, failures alone reject.
WITH
    empty(JSONExtractArrayRaw(report, 'preconditions')) AS sound,
    arraySort(arrayMap(
        metric -> metric.1,
        arrayFilter(
            metric -> JSONExtractString(metric.2, 'state') = 'fail'
                AND JSONExtractBool(metric.2, 'critical')
                AND (sound OR metric.1 = 'failure.rate'),
            JSONExtractKeysAndValuesRaw(report, 'metrics')
        )
    )) AS failed
SELECT failed, argMin(reason, at) AS why, argMin(report, at) AS part, toUnixTimestamp64Nano(min(at)) AS since_ns
FROM verdicts
WHERE experiment = {experiment:String}
    AND candidate = {arm:String}
    AND comparison = {comparison:String}
    AND verdict = 'reject'
GROUP BY failed
ORDER BY since_ns
