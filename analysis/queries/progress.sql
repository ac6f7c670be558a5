-- How far one comparison has come: judged pairs against the primary, and its first window.
SELECT sum(pairs) AS judged, toInt64(toUnixTimestamp(min(`window`))) AS first_s
FROM window_totals FINAL
WHERE experiment = {experiment:String}
    AND comparison = {comparison:String}
    AND candidate = {arm:String}
    AND reference_arm = 'primary'
HAVING count() > 0
