-- The weight below quantiles in every window that ends before the metric's `until`, on both sides;
-- the quantile's own bin counts in proportion. An edge is ln(quantile) / 0.005.
SELECT
    quantile.1 AS name,
    toInt64(toUnixTimestamp(`window`)) AS starts,
    arraySum((bin, weight) -> weight * greatest(0., least(1., quantile.4 - bin)), bins, counts) AS here,
    arraySum(
        (bin, weight) -> weight * greatest(0., least(1., quantile.5 - bin)),
        reference_bins,
        reference_counts
    ) AS there
FROM windows
-- a metric's own quantiles only: joining all of them would copy every histogram for each
ARRAY JOIN arrayFilter(
    each -> each.2 = metric,
    arrayZip(
        {names:Array(String)},
        {asked:Array(String)},
        {untils:Array(Int64)},
        {edges:Array(Float64)},
        {reference_edges:Array(Float64)}
    )
) AS quantile
WHERE experiment = {experiment:String}
    AND comparison = {comparison:String}
    AND candidate = {arm:String}
    AND reference_arm = {reference:String}
    AND replica = 0
    AND probe = 'none'
    AND has({asked:Array(String)}, toString(metric))
    AND toUnixTimestamp(`window`) < quantile.3
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
-- small blocks: a row is two histograms
SETTINGS max_block_size = 256
