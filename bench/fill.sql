-- Both exchanges of {pairs} pairs over a day, as the collector would have stored them: log-normal
-- times with a part that a pair's two sides share, 2 % other texts, 0.2 % failures, a candidate
-- that is 2 % slower. Seeded: the same numbers give the same rows.
INSERT INTO exchanges
(
    experiment, config_hash, arrived_at, started_at, pair_id, arm, role, replica, probe, attach,
    worker, boot_id, sequence, method, path, status, transport, outcome, model, streamed,
    request_bytes, weight, dialect, finish_reason, text_hash, text_chars, prompt_tokens,
    output_tokens, token_source, captured_bytes, events, ttft_any_ms, ttft_content_ms,
    ttft_answer_ms, e2e_ms, decode_ms, tpot_ms, itl_mean_ms, itl_p50_ms, itl_p95_ms, itl_p99_ms,
    itl_max_ms, tokens_per_s, client_wait_ms, failure, version
)
WITH
    (key, salt) -> (cityHash64(key, salt) + 1) / 18446744073709551617. AS uniform,
    (key, salt) -> sqrt(-2 * log(uniform(key, salt))) * cos(2 * pi() * uniform(key, salt + 1)) AS normal,
    intDiv(number, 2) AS pair,
    number % 2 AS side,
    if(side, 1.02, 1.) AS slower,
    uniform(number, 1) < 0.002 AS failed,
    if(failed, NULL, slower * exp(4.5 + 0.4 * normal(pair, 2) + 0.2 * normal(number, 4))) AS ttft,
    if(failed, NULL, slower * exp(2.5 + 0.1 * normal(pair, 6) + 0.1 * normal(number, 8))) AS gap,
    toUInt32(20 + 400 * uniform(pair, 10)) AS tokens,
    fromUnixTimestamp64Nano({begin_ns:Int64} + toInt64(pair * (86400e9 / {pairs:UInt64})), 'UTC') AS arrived
SELECT
    'bench', {config_hash:String}, arrived, arrived, leftPad(toString(pair), 32, '0'),
    if(side, 'candidate', 'primary'), if(side, 'candidate', 'primary'), 0, 'none', 'inline',
    '0', 'bench', number + 1, 'POST', '/v1/chat/completions', if(failed, 503, 200), 'complete',
    if(failed, 'http_error', 'complete'), 'm', true, 560, 1, 'openai_chat', 'stop',
    if(failed, NULL, cityHash64(pair, side AND uniform(number, 12) < 0.02)), tokens * 5, 90,
    if(failed, NULL, tokens), 'usage', tokens * 200, tokens + 3, ttft, ttft,
    ttft, ttft + gap * tokens, gap * (tokens - 1), gap, gap, gap * 0.95, gap * 1.6, gap * 2.5,
    gap * 4, 1000 / gap, 0, failed, 1
FROM numbers({pairs:UInt64} * 2)
SETTINGS max_insert_block_size = 200000
