-- What each arm's engine called itself, in the order in which that was seen.
SELECT toString(candidate), detail
FROM events
WHERE experiment = {experiment:String} AND kind = {kind:String}
ORDER BY at
