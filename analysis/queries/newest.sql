-- Under which configuration and policy the experiment's newest verdict was written.
SELECT
    argMax(config_hash, at) AS last_config,
    argMax(policy_hash, at) AS last_policy,
    toUnixTimestamp64Nano(max(at)) AS last_ns
FROM verdicts
WHERE experiment = {experiment:String}
HAVING count() > 0
