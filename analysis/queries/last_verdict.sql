-- The newest verdict of a comparison, and its first reject: a reject stays.
SELECT
    argMax(verdict, at) AS last_verdict,
    argMax(reason, at) AS last_reason,
    argMax(report, at) AS last_report,
    toUnixTimestamp64Nano(max(at)) AS last_ns,
    argMinIf(reason, at, verdict = 'reject') AS rejected,
    toUnixTimestamp64Nano(minIf(at, verdict = 'reject')) AS rejected_ns
FROM verdicts
WHERE experiment = {experiment:String}
    AND candidate = {arm:String}
    AND comparison = {comparison:String}
HAVING count() > 0
