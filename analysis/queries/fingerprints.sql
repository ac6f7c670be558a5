-- What engines called themselves among the arrivals of [from, until), the earliest first.
SELECT toString(arm), toString(fingerprint)
FROM exchanges
WHERE experiment = {experiment:String}
    AND config_hash = {config_hash:String}
    AND fingerprint != ''
    AND arrived_at >= fromUnixTimestamp64Nano({from_ns:Int64}, 'UTC')
    AND arrived_at < fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
GROUP BY arm, fingerprint
ORDER BY min(arrived_at)
