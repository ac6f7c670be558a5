-- The highest version that anything was built in: what replaces it must have a higher one.
SELECT max(highest) AS version
FROM
(
    SELECT max(version) AS highest FROM pairs WHERE experiment = {experiment:String}
    UNION ALL
    SELECT max(version) AS highest FROM windows WHERE experiment = {experiment:String}
    UNION ALL
    SELECT max(version) AS highest FROM window_totals WHERE experiment = {experiment:String}
)
