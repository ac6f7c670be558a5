-- How an arm's answers failed since its last good one, each counted once however often it came. All
-- arrivals in [from, until) have ended. Requests that failed on the primary too say nothing of it.
WITH
    mine AS
    (
        SELECT
            arrived_at, worker, boot_id, sequence, failure, ifNull(status, 0) AS head,
            if(transport = 'complete', toString(outcome), toString(transport)) AS how
        FROM exchanges
        WHERE experiment = {experiment:String}
            AND config_hash = {config_hash:String}
            AND arm = {arm:String}
            AND probe = 'none'
            AND arrived_at >= fromUnixTimestamp64Nano({from_ns:Int64}, 'UTC')
            AND arrived_at < fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
            AND pair_id NOT IN
            (
                SELECT pair_id
                FROM exchanges
                WHERE experiment = {experiment:String}
                    AND config_hash = {config_hash:String}
                    AND arm = 'primary'
                    AND arrived_at >= fromUnixTimestamp64Nano({from_ns:Int64}, 'UTC')
                    AND arrived_at < fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
                    AND failure = 1
            )
    ),
    (SELECT maxIf(arrived_at, failure = 0 OR (failure IS NULL AND head > 0)) FROM mine) AS well_at
SELECT how, head, uniqExact((worker, boot_id, sequence)) AS requests
FROM mine
WHERE failure = 1 AND arrived_at > well_at
GROUP BY how, head
ORDER BY how = 'breaker_open', requests DESC, how, head
