-- Lengths of answers of every arm: of those that were kept whole, and of those that were cut at
-- `answer_bytes`: their bytes are always known, their tokens where the tail tells them. Cut ones
-- whose tail does not say how they ended (`truncated_capture`) are what pairs are excluded for.
SELECT
    toString(arm) AS name,
    truncated_bytes > 0 AS cut,
    count() AS answers,
    avg(captured_bytes + truncated_bytes) AS bytes_mean,
    quantile(0.5)(captured_bytes + truncated_bytes) AS bytes_p50,
    avg(output_tokens) AS tokens_mean
FROM exchanges FINAL
WHERE experiment = {experiment:String}
    AND config_hash = {config_hash:String}
    AND (ifNull(failure, 1) = 0 OR outcome = 'truncated_capture')
GROUP BY name, cut
ORDER BY name, cut
