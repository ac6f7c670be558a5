-- When a candidate's newest waiver was stored.
SELECT toUnixTimestamp64Nano(max(at)) AS last_ns
FROM waivers
WHERE experiment = {experiment:String} AND candidate = {arm:String}
HAVING count() > 0
