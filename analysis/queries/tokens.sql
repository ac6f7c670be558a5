-- What an arm has read and written under one configuration, in tokens, as far as it is known.
SELECT toFloat64(sum(ifNull(prompt_tokens, 0))), toFloat64(sum(ifNull(output_tokens, 0)))
FROM exchanges FINAL
WHERE experiment = {experiment:String} AND config_hash = {config_hash:String} AND arm = {arm:String}
