-- Cumulative counters, the newest of every worker and boot.
SELECT worker, boot_id, arm, counter, reason, value
FROM accounting FINAL
WHERE experiment = {experiment:String} AND config_hash = {config_hash:String}
