-- How the answers of every arm ended, each kind counted once an answer, however often it came.
SELECT
    toString(arm) AS name,
    toString(outcome) AS ended,
    toString(transport) AS came,
    status,
    failed,
    toUInt64(sum(held)) AS answers,
    toUInt64(sum(cut_off)) AS cut
FROM
(
    SELECT
        arm,
        outcome,
        transport,
        ifNull(status, 0) AS status,
        ifNull(failure, 0) AS failed,
        groupBitmap(sequence) AS held,
        groupBitmapIf(sequence, truncated_bytes > 0) AS cut_off
    FROM exchanges
    WHERE experiment = {experiment:String} AND config_hash = {config_hash:String}
    GROUP BY arm, outcome, transport, status, failed, worker, boot_id
)
GROUP BY name, ended, came, status, failed
ORDER BY name, answers DESC, ended, came, status
