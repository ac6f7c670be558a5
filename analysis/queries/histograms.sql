-- Histograms over all windows that end before an `until`, this arm's and the reference's. A metric is
-- asked for once an `until`: its quantiles have blocks of different lengths.
SELECT
    wanted.1 AS name,
    wanted.2 AS until,
    sumMap(bins, counts) AS here,
    sumMap(reference_bins, reference_counts) AS there,
    sum(infinite) AS beyond,
    sum(reference_infinite) AS reference_beyond
FROM windows
ARRAY JOIN arrayFilter(
    each -> each.1 = metric,
    arrayZip({metrics:Array(String)}, {untils:Array(Int64)})
) AS wanted
WHERE experiment = {experiment:String}
    AND comparison = {comparison:String}
    AND candidate = {arm:String}
    AND reference_arm = {reference:String}
    AND replica = 0
    AND probe = 'none'
    AND has({metrics:Array(String)}, toString(metric))
    AND toUnixTimestamp(`window`) < wanted.2
    AND (`window`, version) IN
    (
        SELECT `window`, version
        FROM window_totals FINAL
        WHERE experiment = {experiment:String}
            AND comparison = {comparison:String}
            AND candidate = {arm:String}
            AND reference_arm = {reference:String}
    )
GROUP BY name, until
-- small blocks: a row is two histograms
SETTINGS max_block_size = 256
