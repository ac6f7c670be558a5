-- Experiments that left anything, the newest first.
SELECT experiment
FROM (
    SELECT experiment, max(at) AS last FROM verdicts GROUP BY experiment
    UNION ALL
    SELECT experiment, max(at) AS last FROM accounting GROUP BY experiment
)
GROUP BY experiment
ORDER BY max(last) DESC, experiment
