-- What the store holds of every worker, boot and arm. A bitmap of sequences counts a record once,
-- however often it was delivered. `awaited` counts those up to the mark of that boot,
-- `unreadable` answers of which not all could be read.
SELECT
    worker,
    boot_id,
    arm,
    groupBitmap(sequence) AS exchanges,
    groupBitmapIf(
        sequence,
        sequence <= transform(boot_id, {boots:Array(String)}, {marks:Array(UInt64)}, toUInt64(0))
    ) AS awaited,
    toUnixTimestamp64Nano(max(arrived_at)) AS last_ns,
    groupBitmapIf(sequence, unreadable_events + damaged_events > 0) AS unreadable
FROM exchanges
WHERE experiment = {experiment:String} AND config_hash = {config_hash:String}
GROUP BY worker, boot_id, arm
