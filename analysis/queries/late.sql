-- Exchanges that arrived after their window had been built.
SELECT sum(JSONExtractUInt(detail, 'exchanges'))
FROM events
WHERE experiment = {experiment:String}
    AND comparison = {comparison:String}
    AND candidate = {arm:String}
    AND kind = 'late'
