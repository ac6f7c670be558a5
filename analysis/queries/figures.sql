-- Sums of every window of one contrast, for the metrics that are read, in the version that counts.
-- What probes tell are metrics of their own.
SELECT
    toString(metric) AS name,
    toInt64(toUnixTimestamp(`window`)) AS starts,
    toFloat64(n) AS n,
    sum_w,
    sum_w2,
    sum_wd,
    sum_wd2,
    numerator,
    denominator,
    reference_numerator,
    reference_denominator
FROM windows
WHERE experiment = {experiment:String}
    AND comparison = {comparison:String}
    AND candidate = {arm:String}
    AND reference_arm = {reference:String}
    AND replica = 0
    AND probe IN ('none', 'greedy')
    AND metric IN {metrics:Array(String)}
    AND n > 0
    AND (`window`, version) IN
    (
        SELECT `window`, version
        FROM window_totals FINAL
        WHERE experiment = {experiment:String}
            AND comparison = {comparison:String}
            AND candidate = {arm:String}
            AND reference_arm = {reference:String}
    )
ORDER BY name, starts
