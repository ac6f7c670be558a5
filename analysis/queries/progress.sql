-- How far one comparison has come: requests judged against the primary, and its first window.
SELECT intDiv(sum(pairs), {copies:UInt16}) AS judged, toInt64(toUnixTimestamp(min(`window`))) AS first_s
FROM window_totals FINAL
WHERE experiment = {experiment:String}
    AND comparison = {comparison:String}
    AND candidate = {arm:String}
    AND reference_arm = 'primary'
HAVING count() > 0
