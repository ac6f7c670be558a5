-- Histograms over all windows that end before the metric's `until`, this arm's and the reference's.
SELECT
    toString(metric) AS name,
    sumMap(bins, counts) AS here,
    sumMap(reference_bins, reference_counts) AS there,
    sum(infinite) AS beyond,
    sum(reference_infinite) AS reference_beyond
FROM windows
WHERE experiment = {experiment:String}
    AND comparison = {comparison:String}
    AND candidate = {arm:String}
    AND reference_arm = {reference:String}
    AND replica = 0
    AND probe = 'none'
    AND metric IN {metrics:Array(String)}
    AND toUnixTimestamp(`window`) < transform(toString(metric), {metrics:Array(String)}, {untils:Array(Int64)}, 0)
    AND (`window`, version) IN
    (
        SELECT `window`, version
        FROM window_totals FINAL
        WHERE experiment = {experiment:String}
            AND comparison = {comparison:String}
            AND candidate = {arm:String}
            AND reference_arm = {reference:String}
    )
GROUP BY name
-- small blocks: a row is two histograms
SETTINGS max_block_size = 256
