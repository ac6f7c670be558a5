-- The newest record of every worker and boot: how far it has come.
SELECT
    worker,
    boot_id,
    toUnixTimestamp64Nano(at) AS at_ns,
    high_sequence,
    dropped_sequences,
    toUnixTimestamp64Nano(low_water) AS low_water_ns,
    final
FROM workers FINAL
WHERE experiment = {experiment:String} AND config_hash = {config_hash:String}
