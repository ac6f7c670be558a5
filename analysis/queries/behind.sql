-- Exchanges of an arm that have arrived after its last built window and whose own window could be
-- built since long: the oldest of them, 0 where there is none. Nobody alive has anything older open.
WITH
    (
        SELECT min(low)
        FROM
        (
            SELECT
                argMax(low_water, sequence) AS low,
                argMax(final, sequence) AS ended,
                max(at) AS heard
            FROM workers
            WHERE experiment = {experiment:String} AND config_hash = {config_hash:String}
            GROUP BY worker, boot_id
        )
        WHERE NOT ended AND heard > fromUnixTimestamp64Nano({dead_ns:Int64}, 'UTC')
    ) AS open_since,
    (
        SELECT max(`window` + toIntervalSecond(seconds))
        FROM window_totals FINAL
        WHERE experiment = {experiment:String}
            AND comparison = {comparison:String}
            AND candidate = {arm:String}
            AND `window` < fromUnixTimestamp64Nano({due_ns:Int64}, 'UTC') -- none of before a clock was set back
    ) AS built_until
SELECT toUnixTimestamp64Nano(min(arrived_at)) AS oldest_ns
FROM exchanges
WHERE experiment = {experiment:String}
    AND config_hash = {config_hash:String}
    AND arm = {arm:String}
    AND arrived_at >= built_until
    AND arrived_at < fromUnixTimestamp64Nano({due_ns:Int64}, 'UTC')
    AND (open_since IS NULL OR arrived_at < open_since)
HAVING count() > 0
