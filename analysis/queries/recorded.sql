-- An experiment's newest verdicts: one a candidate, of the configuration that was judged last.
SELECT
    candidate,
    argMax(comparison, at) AS last_comparison,
    argMax(report, at) AS last_report,
    argMax(policy_hash, at) AS last_policy,
    any(config_hash) AS last_config,
    toUnixTimestamp64Nano(max(at)) AS last_ns
FROM verdicts
WHERE experiment = {experiment:String}
    AND config_hash = (
        SELECT argMax(config_hash, at) FROM verdicts WHERE experiment = {experiment:String}
    )
GROUP BY candidate
ORDER BY candidate
