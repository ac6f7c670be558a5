-- Events of one kind about one arm, oldest first.
SELECT toString(comparison), detail
FROM events
WHERE experiment = {experiment:String} AND candidate = {arm:String} AND kind = {kind:String}
ORDER BY at
