-- Pairs of one contrast over all its windows: captured, judged, excluded by reason, and the span;
-- the same of greedy probes.
SELECT
    sum(captured) AS held,
    sum(pairs) AS judged,
    sumMap(excluded) AS left_out,
    sumMap(`undefined`) AS unmeasured,
    toInt64(toUnixTimestamp(min(`window`))) AS first_s,
    toInt64(toUnixTimestamp(max(`window`))) + any(seconds) AS until_s,
    count() AS windows,
    sum(probes) AS probes_judged,
    sumMap(probes_excluded) AS probes_left_out,
    toInt64(toUnixTimestamp(minIf(`window`, pairs > 0))) AS judged_from_s,
    toInt64(toUnixTimestamp(maxIf(`window`, pairs > 0))) + any(seconds) AS judged_until_s
FROM window_totals FINAL
WHERE experiment = {experiment:String}
    AND comparison = {comparison:String}
    AND candidate = {arm:String}
    AND reference_arm = {reference:String}
