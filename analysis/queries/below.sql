-- The weight below a quantile in every window before `until`, on both sides; the quantile's own
-- bin counts in proportion. `edge` = ln(quantile) / 0.005.
SELECT
    toInt64(toUnixTimestamp(`window`)) AS starts,
    arraySum((bin, weight) -> weight * greatest(0., least(1., {edge:Float64} - bin)), bins, counts) AS here,
    arraySum(
        (bin, weight) -> weight * greatest(0., least(1., {reference_edge:Float64} - bin)),
        reference_bins,
        reference_counts
    ) AS there
FROM windows
WHERE experiment = {experiment:String}
    AND comparison = {comparison:String}
    AND candidate = {arm:String}
    AND reference_arm = {reference:String}
    AND replica = 0
    AND probe = 'none'
    AND metric = {metric:String}
    AND `window` < fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
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
ORDER BY starts
