-- Windows that stand already, and how many exchanges each was made of.
SELECT toUnixTimestamp(`window`) AS start_s, min(exchanges) AS made_of
FROM window_totals FINAL
WHERE experiment = {experiment:String}
    AND comparison = {comparison:String}
    AND candidate = {arm:String}
    AND `window` >= fromUnixTimestamp64Nano({from_ns:Int64}, 'UTC')
    AND `window` < fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
GROUP BY start_s
