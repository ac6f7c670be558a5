-- Pairs (reference arm, arm) of the requests that arrived in [from, until): the arm against the
-- primary, and against the control where there is one and it answered too. A request's copies are
-- pairs of their own: against the primary's one answer, and against the control's copies in turn.
-- A failed answer's times are infinite: an error that returns fast is not fast. A deadline that lay
-- within the slack of the primary's own time proves nobody slow: deadline_short. Where a slow client
-- held an answer back for more than 1 % of its time, the times that it may have stretched are
-- undefined. Where the sides count tokens by different sources, what is reckoned from tokens is. What
-- the arm alone lacks, though both have answered, is named too: METRIC_missing.
INSERT INTO pairs
(
    experiment, comparison, arrived_at, pair_id, arm, reference_arm, replica, probe, excluded,
    weight, model, path, streamed, prompt_tokens, output_tokens, reference_output_tokens,
    cached_tokens, ttft_any_ms, reference_ttft_any_ms, ttft_content_ms,
    reference_ttft_content_ms, ttft_answer_ms, reference_ttft_answer_ms, e2e_ms,
    reference_e2e_ms, decode_ms, reference_decode_ms, tpot_ms, reference_tpot_ms, itl_mean_ms,
    reference_itl_mean_ms, itl_p50_ms, reference_itl_p50_ms, itl_p95_ms, reference_itl_p95_ms,
    itl_p99_ms, reference_itl_p99_ms, itl_max_ms, reference_itl_max_ms, failure,
    reference_failure, mismatch, reference_mismatch, version,
    server_queue_ms, reference_server_queue_ms, server_prefill_ms, reference_server_prefill_ms,
    server_ttft_ms, reference_server_ttft_ms, server_tpot_ms, reference_server_tpot_ms,
    events, reference_events, reads, reference_reads, `undefined`,
    in_band_error, reference_in_band_error, cut_at_length, reference_cut_at_length
)
WITH
    reference = {control:String} AS by_control,
    if(by_control, c.token_source, p.token_source) AS other_source,
    NOT a.failed AND NOT if(by_control, c.failed, p.failed) AS both_answered,
    ifNull(
        both_answered AND a.token_source != other_source AND a.token_source != '' AND other_source != '',
        false
    ) AS mixed,
    ifNull(both_answered AND (a.held_back OR if(by_control, c.held_back, p.held_back)), false) AS waited,
    -- earlier turns hold the primary's tokens, and its cache is warm: without a control its time to
    -- the first token compares with nobody's
    ifNull({control:String} = '' AND both_answered AND p.turns > 2, false) AS warm_cache,
    -- where nobody said anything that is read, equal texts tell nothing
    ifNull(p.text_chars = 0 AND a.text_chars = 0 AND (NOT by_control OR c.text_chars = 0), false) AS no_words,
    if(by_control, [a.outcome, p.outcome, c.outcome], [a.outcome, p.outcome]) AS outcomes,
    if(by_control, [a.transport, p.transport, c.transport], [a.transport, p.transport]) AS transports,
    answers AS
(
    SELECT
        arm, pair_id, replica, probe, arrived_at, weight, model, path, streamed, turns, prompt_tokens,
        cached_tokens, output_tokens, outcome, transport, failure, mirroring,
        token_source, events,
        events / events_per_read AS reads,
        failure = 1 AS failed,
        if(failure IS NULL, NULL, outcome = 'in_band_error') AS in_band,
        if(failed OR finish_reason = '', NULL, finish_reason IN ('length', 'max_tokens', 'max_output_tokens')) AS cut,
        ifNull(e2e_ms, 0) AS took_ms,
        client_wait_ms > 0.01 * e2e_ms AS held_back,
        if(failed, NULL, text_hash) AS text_hash, text_key, text_chars,
        if(failed, inf, ttft_any_ms) AS ttft_any,
        if(failed, inf, ttft_content_ms) AS ttft_content,
        if(failed, inf, ttft_answer_ms) AS ttft_answer,
        if(failed, inf, if(held_back, NULL, e2e_ms)) AS e2e,
        if(failed, inf, if(held_back, NULL, decode_ms)) AS decode,
        if(failed, inf, if(held_back, NULL, tpot_ms)) AS tpot,
        if(failed, inf, if(held_back, NULL, itl_mean_ms)) AS itl_mean,
        if(failed, inf, if(held_back, NULL, itl_p50_ms)) AS itl_p50,
        if(failed, inf, if(held_back, NULL, itl_p95_ms)) AS itl_p95,
        if(failed, inf, if(held_back, NULL, itl_p99_ms)) AS itl_p99,
        if(failed, inf, if(held_back, NULL, itl_max_ms)) AS itl_max,
        if(failed, inf, server_queue_ms) AS server_queue,
        if(failed, inf, server_prefill_ms) AS server_prefill,
        if(failed, inf, server_ttft_ms) AS server_ttft,
        if(failed, inf, server_tpot_ms) AS server_tpot
    FROM exchanges FINAL
    WHERE experiment = {experiment:String}
        AND config_hash = {config_hash:String}
        AND arm IN ('primary', {arm:String}, {control:String})
        AND probe = 'none'
        AND arrived_at >= fromUnixTimestamp64Nano({from_ns:Int64}, 'UTC')
        AND arrived_at < fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
)
SELECT
    {experiment:String},
    {comparison:String},
    a.arrived_at,
    a.pair_id,
    a.arm,
    reference,
    a.replica,
    a.probe,
    multiIf(
        toUnixTimestamp64Nano(a.arrived_at) <= {warm_up_ns:Int64}, 'warm_up',
        a.mirroring = 'after', 'after_window',
        has(outcomes, 'client_disconnected') OR has(transports, 'client_disconnected'), 'client_cancelled',
        has(outcomes, 'truncated_capture'), 'truncated_capture',
        has(transports, 'cut_by_drain'), 'cut_by_drain',
        has(transports, 'deadline_short')
            -- A breaker may have been opened by deadlines alone.
            OR a.transport IN ('timed_out', 'breaker_open') AND {deadline_ms:Float64} <= p.took_ms * (1 + {slack:Float64})
            OR c.transport IN ('timed_out', 'breaker_open') AND {control_deadline_ms:Float64} <= p.took_ms * (1 + {slack:Float64}),
            'deadline_short',
        p.outcome = 'not_a_completion', 'not_a_completion',
        p.failed, 'primary_failed',
        a.failure IS NULL OR p.failure IS NULL OR other_failure IS NULL, 'unknown_outcome',
        ''
    ),
    a.weight,
    p.model,
    p.path,
    p.streamed,
    p.prompt_tokens,
    if(mixed, NULL, a.output_tokens),
    if(mixed, NULL, if(by_control, c.output_tokens, p.output_tokens)),
    a.cached_tokens,
    if(warm_cache, NULL, a.ttft_any), if(by_control, c.ttft_any, p.ttft_any),
    if(warm_cache, NULL, a.ttft_content), if(by_control, c.ttft_content, p.ttft_content),
    if(warm_cache, NULL, a.ttft_answer), if(by_control, c.ttft_answer, p.ttft_answer),
    a.e2e, if(by_control, c.e2e, p.e2e),
    a.decode, if(by_control, c.decode, p.decode),
    if(mixed, NULL, a.tpot), if(mixed, NULL, if(by_control, c.tpot, p.tpot)),
    if(mixed, NULL, a.itl_mean), if(mixed, NULL, if(by_control, c.itl_mean, p.itl_mean)),
    a.itl_p50, if(by_control, c.itl_p50, p.itl_p50),
    a.itl_p95, if(by_control, c.itl_p95, p.itl_p95),
    a.itl_p99, if(by_control, c.itl_p99, p.itl_p99),
    a.itl_max, if(by_control, c.itl_max, p.itl_max),
    a.failure,
    if(by_control, c.failure, p.failure) AS other_failure,
    -- both sides against the primary's text; hashes under two secrets say nothing of each other
    if(a.text_key = p.text_key AND NOT no_words, a.text_hash != p.text_hash, NULL),
    if(by_control, if(c.text_key = p.text_key, c.text_hash != p.text_hash, NULL), p.text_hash != p.text_hash),
    {version:UInt64},
    a.server_queue, if(by_control, c.server_queue, p.server_queue),
    a.server_prefill, if(by_control, c.server_prefill, p.server_prefill),
    a.server_ttft, if(by_control, c.server_ttft, p.server_ttft),
    a.server_tpot, if(by_control, c.server_tpot, p.server_tpot),
    a.events, if(by_control, c.events, p.events),
    a.reads, if(by_control, c.reads, p.reads),
    arrayConcat(
        arrayFilter(reason -> reason != '', [if(mixed, 'token_source', ''), if(waited, 'client_wait', ''), if(warm_cache, 'multi_turn', '')]),
        arrayMap(one -> one.1, arrayFilter(one -> one.2 AND ifNull(both_answered, false),
        [
            ('ttft_any_missing', NOT warm_cache AND isNull(a.ttft_any) AND isNotNull(if(by_control, c.ttft_any, p.ttft_any))),
            ('ttft_content_missing', NOT warm_cache AND isNull(a.ttft_content) AND isNotNull(if(by_control, c.ttft_content, p.ttft_content))),
            ('ttft_answer_missing', NOT warm_cache AND isNull(a.ttft_answer) AND isNotNull(if(by_control, c.ttft_answer, p.ttft_answer))),
            ('e2e_missing', isNull(a.e2e) AND isNotNull(if(by_control, c.e2e, p.e2e))),
            ('decode_missing', isNull(a.decode) AND isNotNull(if(by_control, c.decode, p.decode))),
            ('tpot_missing', isNull(a.tpot) AND isNotNull(if(by_control, c.tpot, p.tpot))),
            ('itl_mean_missing', isNull(a.itl_mean) AND isNotNull(if(by_control, c.itl_mean, p.itl_mean))),
            ('itl_p99_missing', isNull(a.itl_p99) AND isNotNull(if(by_control, c.itl_p99, p.itl_p99))),
            ('server_queue_missing', isNull(a.server_queue) AND isNotNull(if(by_control, c.server_queue, p.server_queue))),
            ('server_prefill_missing', isNull(a.server_prefill) AND isNotNull(if(by_control, c.server_prefill, p.server_prefill))),
            ('server_ttft_missing', isNull(a.server_ttft) AND isNotNull(if(by_control, c.server_ttft, p.server_ttft))),
            ('server_tpot_missing', isNull(a.server_tpot) AND isNotNull(if(by_control, c.server_tpot, p.server_tpot))),
            ('output_tokens_missing', isNull(a.output_tokens) AND isNotNull(if(by_control, c.output_tokens, p.output_tokens))),
            ('cut_at_length_missing', isNull(a.cut) AND isNotNull(if(by_control, c.cut, p.cut))),
            ('text_missing', isNull(a.text_hash) AND isNotNull(p.text_hash))
        ]))
    ),
    a.in_band, if(by_control, c.in_band, p.in_band),
    a.cut, if(by_control, c.cut, p.cut)
FROM
(
    SELECT * FROM answers WHERE arm = {arm:String}
) AS a
INNER JOIN
(
    SELECT * FROM answers WHERE arm = 'primary' AND replica = 0
) AS p ON a.pair_id = p.pair_id
LEFT JOIN
(
    SELECT * FROM answers WHERE arm = {control:String} AND arm != {arm:String}
) AS c ON a.pair_id = c.pair_id AND a.replica % {control_copies:UInt16} = c.replica
ARRAY JOIN if(c.pair_id = '', ['primary'], ['primary', {control:String}]) AS reference
