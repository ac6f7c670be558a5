-- From which window on the newest pairs of one contrast are, as many as are asked for.
SELECT toInt64(toUnixTimestamp64Nano(min(`window`))) AS from_ns
FROM
(
    SELECT `window`, sum(pairs) OVER (ORDER BY `window` DESC) - pairs AS later
    FROM window_totals FINAL
    WHERE experiment = {experiment:String}
        AND comparison = {comparison:String}
        AND candidate = {arm:String}
        AND reference_arm = {reference:String}
)
WHERE later < {most:UInt64}
HAVING count() > 0
