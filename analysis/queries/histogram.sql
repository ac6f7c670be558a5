-- One metric's histograms over all windows before `until`: this arm's and the reference's.
SELECT
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
    AND metric = {metric:String}
    AND `window` < fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
    AND (`window`, version) IN
    (
        SELECT `window`, version
        FROM window_totals FINAL
        WHERE experiment = {experiment:String}
            AND comparison = {comparison:String}
            AND candidate = {arm:String}
            AND reference_arm = {reference:String}
    )
