-- Greedy probes of the requests that arrived in [from, until): the arm's answer at temperature 0 and the
-- control's. They tell of texts and lengths alone: no time stands in such a pair. The control's text
-- differs from itself by nothing; without the control's answer there is nothing to compare with.
INSERT INTO pairs
(
    experiment, comparison, arrived_at, pair_id, arm, reference_arm, replica, probe, excluded,
    weight, model, path, streamed, prompt_tokens, output_tokens, reference_output_tokens,
    cached_tokens, failure, reference_failure, mismatch, reference_mismatch,
    cut_at_length, reference_cut_at_length, version
)
WITH
    a.output_tokens IS NOT NULL AND c.output_tokens IS NOT NULL
        AND (a.token_source = c.token_source OR a.token_source = '' OR c.token_source = '') AS same_source,
    answers AS
(
    SELECT
        arm, pair_id, replica, probe, arrived_at, weight, model, path, streamed, prompt_tokens,
        cached_tokens, outcome, transport, failure, mirroring, token_source, text_key, text_chars,
        ifNull(failure, 1) = 1 AS failed,
        if(failed, NULL, output_tokens) AS output_tokens,
        if(failed, NULL, text_hash) AS text_hash,
        if(failed OR finish_reason = '', NULL, finish_reason IN ('length', 'max_tokens', 'max_output_tokens')) AS cut
    FROM exchanges FINAL
    WHERE experiment = {experiment:String}
        AND config_hash = {config_hash:String}
        AND arm IN ({arm:String}, {control:String})
        AND probe != 'none'
        AND arrived_at >= fromUnixTimestamp64Nano({from_ns:Int64}, 'UTC')
        AND arrived_at < fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
)
SELECT
    {experiment:String},
    {comparison:String},
    a.arrived_at,
    a.pair_id,
    a.arm,
    {control:String},
    a.replica,
    a.probe,
    multiIf(
        toUnixTimestamp64Nano(a.arrived_at) <= {warm_up_ns:Int64}, 'warm_up',
        a.mirroring = 'after', 'after_window',
        c.pair_id = '', 'no_control',
        'client_disconnected' IN (a.outcome, c.outcome, a.transport, c.transport), 'client_cancelled',
        'truncated_capture' IN (a.outcome, c.outcome), 'truncated_capture',
        'cut_by_drain' IN (a.transport, c.transport), 'cut_by_drain',
        a.failure IS NULL OR c.failure IS NULL, 'unknown_outcome',
        ''
    ),
    a.weight,
    a.model,
    a.path,
    a.streamed,
    a.prompt_tokens,
    if(same_source, a.output_tokens, NULL),
    if(same_source, c.output_tokens, NULL),
    a.cached_tokens,
    a.failure,
    c.failure,
    if(a.text_key = c.text_key AND NOT ifNull(a.text_chars = 0 AND c.text_chars = 0, false), a.text_hash != c.text_hash, NULL),
    c.text_hash != c.text_hash,
    a.cut,
    c.cut,
    {version:UInt64}
FROM
(
    SELECT * FROM answers WHERE arm = {arm:String}
) AS a
LEFT JOIN
(
    SELECT * FROM answers WHERE arm = {control:String}
) AS c ON a.pair_id = c.pair_id AND a.probe = c.probe AND a.replica = c.replica
