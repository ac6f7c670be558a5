"""Chat completions as real engines speak them: every fault class of the field, with its small input."""

import json

import pytest
from collecting.answers import (
    CHAT,
    DONE,
    JSON,
    SSE,
    delta,
    event,
    finish,
    marks_of,
    streamed,
    text,
    usage,
    whole,
)

from collector.completion import Answer, Fault, ToolCall, read

MS = 1_000_000


def said(completion, index=0):
    return completion.choices[index].text


@pytest.mark.parametrize(
    "role",
    [
        delta(role="assistant", content=""),  # vLLM, SGLang
        delta(role="assistant", content=None),  # llama.cpp
        delta(role="assistant"),  # TensorRT-LLM
    ],
)
def test_a_role_chunk_is_no_token(role):
    """The first content, not the role before it, is the first token (F1-F3)."""
    done = streamed(role, text("Hel"), text("lo"), finish(), DONE)
    assert (done.outcome, said(done)) == ("complete", "Hello")
    assert done.timeline.data_ns[0] == 10 * MS
    assert done.timeline.token_ns == (20 * MS, 30 * MS)


def test_a_stream_without_role_chunk():
    """Dynamo and TGI put the role on the first content (F4)."""
    done = streamed(delta(role="assistant", content="Hi"), finish(), DONE)
    assert done.timeline.token_ns == (10 * MS,)
    assert said(done) == "Hi"


def test_a_trailing_space_before_the_line_end():
    """TensorRT-LLM: `data: {...} \\n\\n` (F3)."""
    done = streamed(event(text("Hi"), end=" \n\n"), DONE)
    assert said(done) == "Hi"
    assert done.unreadable_events == 0


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_alone(name):
    """Both spellings are tokens, and no answer (F5)."""
    done = streamed(
        delta(role="assistant", content=""), delta(**{name: "Hm"}), finish("length"), DONE
    )
    assert (done.outcome, done.choices[0].reasoning, said(done)) == ("complete", "Hm", "")
    assert done.timeline.token_ns == (20 * MS,)
    assert done.timeline.answer_ns is None


def test_reasoning_then_content():
    """TTFT of the answer begins after the reasoning (F6); SGLang sends the other key as null."""
    done = streamed(
        delta(reasoning_content="Hm", content=None),
        delta(reasoning_content=None, content="Yes"),
        finish(),
        DONE,
    )
    assert (done.choices[0].reasoning, said(done)) == ("Hm", "Yes")
    assert (done.timeline.token_ns[0], done.timeline.answer_ns) == (10 * MS, 20 * MS)


def test_both_spellings_in_one_delta_count_once():
    """F7."""
    done = streamed(delta(reasoning_content="Hm", reasoning="Hm"), finish(), DONE)
    assert done.choices[0].reasoning == "Hm"


def test_content_and_tool_call_in_one_delta():
    """F9."""
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    done = streamed(delta(content="See:", tool_calls=[call]), finish("tool_calls"), DONE)
    assert said(done) == "See:"
    assert done.choices[0].tool_calls == (ToolCall("a", "f", "{}"),)


def test_empty_content_chunks_are_no_token_events():
    """A token that decodes to nothing carries no text (F10); usage still counts it."""
    done = streamed(text("a"), text(""), text("b"), finish(), usage(3), DONE)
    assert len(done.timeline.token_ns) == 2
    assert (done.tokens.count, done.tokens.source) == (3, "usage")


@pytest.mark.parametrize(
    ("tail", "count", "source"),
    [
        ([finish(), usage(7), DONE], 7, "usage"),  # last, choices []
        ([finish(), usage(7, [{"index": 0, "delta": {}}]), DONE], 7, "usage"),  # beside a choice
        ([finish(), DONE, usage(7)], 7, "usage"),  # behind [DONE]
        ([finish(), DONE], 2, "events"),  # none
        ([finish() | {"usage": None}, DONE], 2, "events"),  # null
        ([finish() | {"usage": "many"}, DONE], 2, "events"),  # no object
        ([finish() | {"usage": {"completion_tokens": -1}}, DONE], 2, "events"),  # no count
        ([finish() | {"usage": {"completion_tokens": 10**30}}, DONE], 2, "events"),
        ([finish() | {"usage": {"completion_tokens": True}}, DONE], 2, "events"),
    ],
)
def test_usage_wherever_it_stands(tail, count, source):
    """F11: usage last, beside choices, behind [DONE], absent, null, or nonsense."""
    done = streamed(text("a"), text("b"), *tail)
    assert done.outcome == "complete"
    assert (done.tokens.count, done.tokens.source) == (count, source)


def test_usage_on_every_chunk_is_not_summed():
    """continuous_usage_stats: the last counts, and the first says how many tokens its event held."""
    chunks = [
        text("abc") | usage(3, text("abc")["choices"]),
        text("d") | usage(4, text("d")["choices"]),
    ]
    done = streamed(*chunks, finish() | {"usage": usage(4)["usage"]}, DONE)
    assert done.tokens.count == 4
    assert done.timeline.first_tokens == 3


def test_usage_details():
    """Cached and reasoning tokens, nested or on top (SGLang)."""
    nested = usage(
        5,
        prompt_tokens_details={"cached_tokens": 4},
        completion_tokens_details={"reasoning_tokens": 2},
    )
    done = streamed(text("a"), nested, DONE)
    assert (done.usage.cached_tokens, done.usage.reasoning_tokens) == (4, 2)
    on_top = streamed(text("a"), usage(5, reasoning_tokens=3, prompt_tokens_details=None), DONE)
    assert (on_top.usage.cached_tokens, on_top.usage.reasoning_tokens) == (None, 3)


@pytest.mark.parametrize("azure", [{"choices": [], "prompt_filter_results": []}])
def test_an_empty_list_of_choices_first(azure):
    """Azure's first chunk has no choice."""
    assert said(streamed(azure, text("a"), DONE)) == "a"


def test_done_missing_is_no_terminal_event():
    """F12: a clean end without [DONE] is a failure, a finish reason or not."""
    done = streamed(text("a"), finish())
    assert done.outcome == "no_terminal_event"
    assert done.fault == Fault(None, "the stream ended without its terminal event")
    assert done.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("done", [b"data:[DONE]\n\n", DONE + DONE, b"data: [DONE] \r\n\r\n"])
def test_done_in_its_shapes(done):
    """F12: without the space, twice, with one behind it."""
    assert streamed(text("a"), done).outcome == "complete"


def test_done_without_its_blank_line_is_not_dispatched():
    """The standard drops it; it is reported as truncation, not passed over."""
    done = streamed(text("a"), b"data: [DONE]\n")
    assert (done.outcome, done.fault.type) == ("truncated_upstream", "sse")


def test_a_finish_reason_that_never_comes_is_still_complete():
    """Dynamo #10513: the terminal event is there, the finish reason is a structural difference."""
    done = streamed(text("a"), usage(1), DONE)
    assert (done.outcome, done.choices[0].finish_reason) == ("complete", None)


ERRORS = {
    "object": (
        {"error": {"message": "boom", "type": "Internal", "code": 500}},
        Fault("Internal", "boom"),
    ),
    "string": ({"error": "boom", "error_type": "generation"}, Fault("generation", "boom")),
    "bare string": ({"error": "boom"}, Fault(None, "boom")),
    "top level": ({"message": "boom", "type": "T", "code": 400}, Fault("T", "boom")),
    "sglang": (
        {"object": "error", "message": "boom", "type": "T", "param": None, "code": 1},
        Fault("T", "boom"),
    ),
    "code only": ({"error": {"message": "boom", "code": 503}}, Fault("503", "boom")),
    "no message": ({"error": {"code": "x"}}, Fault("x", '{"code":"x"}')),
    "triton": ({"error": ["a", 1]}, Fault(None, '["a",1]')),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_inside_a_200(name):
    """F13: every shape is an in-band error with its words, [DONE] or not, tokens before it or not."""
    document, fault = ERRORS[name]
    for before in ([], [text("a"), text("b")]):
        for after in ([], [DONE]):
            done = streamed(*before, document, *after)
            assert (done.outcome, done.fault) == ("in_band_error", fault)


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (b"event: error\n: engine died\n\n", Fault("error", "engine died")),
        (b": engine died\nevent: error\n\n", Fault("error", "engine died")),
        (b"event: error\n\n", Fault("error", "an error event without data")),
        (b"event: error\ndata: it broke\n\n", Fault("error", "it broke")),
        (b'event: error\ndata: {"message": "it broke", "code": 5}\n\n', Fault("5", "it broke")),
        (b'event: error\ndata: {"why": 1}\n\n', Fault("error", "an error event")),
    ],
)
def test_an_error_event(error, fault):
    """F13: Dynamo's event with a comment and no data; others' with data."""
    done = streamed(text("a"), error, DONE)
    assert (done.outcome, done.fault) == ("in_band_error", fault)


@pytest.mark.parametrize("reason", ["error", "abort"])
def test_an_engine_that_gives_up_in_the_finish_reason(reason):
    """vLLM's error, SGLang's abort."""
    done = streamed(text("a"), finish(reason), DONE)
    assert (done.outcome, done.fault.type) == ("in_band_error", reason)


def test_a_reset_in_the_middle_of_an_event():
    """F13: TensorRT-LLM drops the socket; what came is kept."""
    done = streamed(text("a"), event(text("b"))[:-20], transport="reset", error="connection reset")
    assert (done.outcome, said(done)) == ("truncated_upstream", "a")
    assert done.fault == Fault("reset", "connection reset")


def test_an_end_inside_a_character():
    """F13: EOF in the middle of UTF-8."""
    body = event(text("a")) + 'data: {"choices":[{"delta":{"content":"€'.encode()[:-1]
    done = streamed(body, transport="truncated")
    assert (done.outcome, said(done)) == ("truncated_upstream", "a")


def test_a_json_error_in_a_200():
    """F13: an error document with 200 and application/json, though a stream was asked for."""
    done = whole({"error": {"message": "no slot", "type": "unavailable"}})
    assert (done.outcome, done.fault, done.streamed) == (
        "in_band_error",
        Fault("unavailable", "no slot"),
        False,
    )


def test_a_500_with_an_event_stream():
    """F13: the error's words are read out of the event."""
    done = streamed({"error": {"message": "oom", "type": "E"}}, DONE, status=500)
    assert (done.outcome, done.fault) == ("http_error", Fault("E", "oom"))


@pytest.mark.parametrize(
    "ping",
    [b":\n\n", b": ping\n\n", b"event: ping\ndata: {}\n\n", b"data: : OPENROUTER PROCESSING\n\n"],
)
def test_pings_are_no_events(ping):
    """F14, E30: a keep-alive in any shape is no data event and breaks nothing."""
    done = streamed(ping, text("a"), ping, text("b"), DONE)
    assert (done.outcome, said(done), done.unreadable_events) == ("complete", "ab", 0)
    assert done.timeline.data_ns == (20 * MS, 40 * MS, 50 * MS)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_and_multi_line_data(end):
    """F15: any line end; a payload over several data lines; id, retry and a BOM."""
    first = json.dumps(text("a"), indent=1).split("\n")
    lines = [
        "\ufeffid: 1",
        "retry: 10",
        *(f"data: {line}" for line in first),
        "",
        "data: [DONE]",
        "",
        "",
    ]
    done = streamed(end.join(lines).encode())
    assert (done.outcome, said(done), done.unreadable_events) == ("complete", "a", 0)


def test_separators_that_are_no_line_ends():
    """F16: U+2028, U+2029, U+0085 raw in the data."""
    odd = "a\u2028b\u2029c\u0085d"
    done = streamed(f'data: {{"choices":[{{"delta":{{"content":"{odd}"}}}}]}}\n\n'.encode(), DONE)
    assert said(done) == odd


def test_every_split_gives_the_same_answer():
    """F17, F18: an answer in two reads, cut anywhere, is read the same, but for the times."""
    body = (
        event(text("Hé"))
        + event(delta(tool_calls=[{"index": 0, "function": {"name": "f"}}]))
        + DONE
    )
    reference = read(Answer(CHAT, 200, SSE, body, [(1, len(body))], "complete"))
    first = len(event(text("Hé")))
    for cut in range(1, len(body)):
        done = read(Answer(CHAT, 200, SSE, body, [(1, cut), (2, len(body))], "complete"))
        assert done.choices == reference.choices
        assert done.timeline.data_ns[0] == (1 if cut >= first else 2)


def test_twenty_events_in_one_read():
    """F18: they share their time, and events_per_read says so."""
    raw = [event(text("x")) for _ in range(20)]
    body = b"".join(raw)
    done = streamed(body, DONE)
    assert set(done.timeline.token_ns) == {10 * MS}
    assert (len(done.timeline.data_ns), done.timeline.reads) == (21, 2)


def test_a_line_of_600_kib():
    """F19."""
    done = streamed(text("x" * 600 * 1024), DONE)
    assert len(said(done)) == 600 * 1024


def test_interleaved_choices():
    """F21: n = 2."""
    done = streamed(
        text("a", 0),
        text("x", 1),
        text("b", 0),
        text("y", 1),
        finish("stop", 1),
        finish("length", 0),
        DONE,
    )
    assert [(c.index, c.text, c.finish_reason) for c in done.choices] == [
        (0, "ab", "length"),
        (1, "xy", "stop"),
    ]


def test_the_finish_reason_separate_or_merged():
    """F24, and the stop reason under either engine's name."""
    merged = streamed(delta(finish="stop", content="a"), DONE)
    assert merged.choices[0].finish_reason == "stop"
    chunk = finish()
    chunk["choices"][0]["stop_reason"] = "###"
    assert streamed(text("a"), chunk, DONE).choices[0].stop_reason == "###"
    chunk = finish()
    chunk["choices"][0]["matched_stop"] = 128009
    assert streamed(text("a"), chunk, DONE).choices[0].stop_reason == 128009


def test_cumulative_text_is_undone():
    """F25: each delta holds the whole text so far; or one of them does, late."""
    so_far = [
        "The cat",
        "The cat sat on the mat all day long",
        "The cat sat on the mat all day long.",
    ]
    every = streamed(*map(text, so_far), DONE)
    assert (said(every), every.cumulative) == (so_far[-1], True)
    counting = streamed(*map(text, ("1", "10", "100")), DONE)
    assert (said(counting), counting.cumulative) == ("110100", False)
    parts = ["The quick ", "brown fox ", "jumps over ", "the lazy dog"]
    once = streamed(*map(text, parts), text("".join(parts) + " and"), text(" ran."), DONE)
    assert (said(once), once.cumulative) == (
        "The quick brown fox jumps over the lazy dog and ran.",
        True,
    )
    loop = streamed(text("ha"), text("ha"), text("haha"), text("ha" * 20), DONE)
    assert (said(loop), loop.cumulative) == ("ha" * 24, False)


def test_message_beside_delta_is_not_read_twice():
    """E56: a message that repeats the cumulative text in each chunk."""
    chunks = [text("a"), text("b")]
    for chunk, so_far in zip(chunks, ["a", "ab"], strict=True):
        chunk["choices"][0]["message"] = {"role": "assistant", "content": so_far}
    assert said(streamed(*chunks, DONE)) == "ab"


def test_log_probabilities_that_are_no_numbers():
    """F26: -inf, NaN, null, -9999; NaN and Infinity bare in the JSON break no event."""
    entries = ['{"token":"a","logprob":-Infinity}', '{"token":"b","logprob":NaN}', '{"token":"c","logprob":null}',
               '{"token":"d","logprob":-9999.0,"top_logprobs":[{"token":"e","logprob":-0.5}]}']  # fmt: skip
    body = f'data: {{"choices":[{{"index":0,"delta":{{"content":"abcd"}},"logprobs":{{"content":[{",".join(entries)}]}}}}]}}\n\n'
    done = streamed(body.encode(), DONE)
    got = [(each.token, each.logprob, each.top) for each in done.choices[0].logprobs]
    assert got == [
        ("a", None, ()),
        ("b", None, ()),
        ("c", None, ()),
        ("d", -9999.0, (("e", -0.5),)),
    ]
    assert (done.tokens.count, done.tokens.source, done.timeline.first_tokens) == (4, "logprobs", 4)


def test_token_ids_are_a_source_of_counts():
    """vLLM's return_token_ids: more tokens than events."""
    chunk = text("ab")
    chunk["choices"][0]["token_ids"] = [5, 6]
    last = text("c")
    last["choices"][0]["token_ids"] = [7]
    done = streamed(chunk, last, DONE)
    assert (done.choices[0].token_ids, done.tokens.source, done.tokens.count) == (
        (5, 6, 7),
        "token_ids",
        3,
    )
    assert done.timeline.first_tokens == 2


def test_no_tokens_at_all():
    """A stream that ends properly and said nothing; one whose token decoded to nothing did say one."""
    silent = streamed(delta(role="assistant", content=""), finish(), DONE)
    assert silent.outcome == "no_tokens"
    assert streamed(finish(), usage(1), DONE).outcome == "complete"
    assert streamed(DONE).outcome == "no_tokens"
    assert streamed(b"").outcome == "no_terminal_event"


def test_duplicates_in_dispatch_events_are_passed_over():
    """Dynamo's tool_call_dispatch and reasoning_dispatch repeat what the chunks say."""
    done = streamed(text("a"), event(text("a"), "reasoning_dispatch"), DONE)
    assert said(done) == "a"


def test_annotations_without_data_are_no_events():
    """Dynamo's nvext: `event: token_ids` with a comment."""
    done = streamed(b'event: token_ids\n: "[1,2]"\n\n', text("a"), DONE)
    assert (done.outcome, len(done.timeline.data_ns)) == ("complete", 2)


def test_unreadable_events_are_counted():
    """Rubbish between good events is counted, and loses none of them."""
    done = streamed(
        text("a"), b"data: {broken\n\n", b"data: 17\n\n", text("b"), b"data: \xff\xfe\n\n", DONE
    )
    assert (done.outcome, said(done), done.unreadable_events) == ("complete", "ab", 3)


def test_bytes_that_are_no_utf8_are_counted():
    """A damaged event is read with U+FFFD, and said to be damaged."""
    done = streamed(
        b'data: {"choices":[{"delta":{"content":"a\xffb"}}]}\n\n', b"data: {\xff\n\n", DONE
    )
    assert (said(done), done.damaged_events, done.unreadable_events) == ("a\ufffdb", 2, 1)


def test_a_json_error_under_an_event_stream_s_type():
    """An error document where a stream was announced is read as what it is."""
    done = streamed(b'{"error": {"message": "no slot", "type": "busy"}}')
    assert (done.outcome, done.fault) == ("in_band_error", Fault("busy", "no slot"))


def test_surrogates_that_came_apart_are_joined_and_lone_ones_replaced():
    """Escapes of half a character in two deltas; one that has no other half."""
    halves = [
        b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"\\ude00"}}]}\n\n',
    ]
    assert said(streamed(*halves, DONE)) == "😀"
    assert said(streamed(halves[0], DONE)) == "\ufffd"


def test_a_whole_answer():
    """Message, refusal, both reasonings, content in parts, the older function_call."""
    message = {"role": "assistant", "content": "Hi", "reasoning": "Hm", "refusal": None}
    done = whole({"object": "chat.completion", "model": "m", "system_fingerprint": "fp",
                  "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                  "usage": {"prompt_tokens": 3, "completion_tokens": 2}})  # fmt: skip
    assert (done.outcome, done.model, done.fingerprint) == ("complete", "m", "fp")
    assert (said(done), done.choices[0].reasoning, done.tokens.count) == ("Hi", "Hm", 2)
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]},
        {"type": "text", "text": "Hi"},
    ]
    mistral = whole({"choices": [{"message": {"content": parts}}]})
    assert (said(mistral), mistral.choices[0].reasoning) == ("Hi", "Hm")
    older = whole({"choices": [{"message": {"function_call": {"name": "f", "arguments": "{}"}}}]})
    assert older.choices[0].tool_calls == (ToolCall(None, "f", "{}"),)
    refused = whole({"choices": [{"message": {"content": None, "refusal": "No."}}]})
    assert (refused.outcome, refused.choices[0].refusal) == ("complete", "No.")


def test_server_timings_are_kept():
    """llama.cpp's timings, Dynamo's nvext.timing, vLLM's metrics."""
    assert streamed(text("a"), usage(1) | {"timings": {"prompt_ms": 4.5}}, DONE).server == {
        "prompt_ms": 4.5
    }
    assert whole(
        {"choices": [], "metrics": {"queue_time_ms": 1}, "nvext": {"timing": {"ttft_ms": 2}}}
    ).server == {
        "queue_time_ms": 1,
        "ttft_ms": 2,
    }


def test_content_length_or_chunked_makes_no_difference():
    """F30: framing fields of the head are none of the body's."""
    body = json.dumps({"choices": [{"message": {"content": "a"}}]}).encode()
    for head in (JSON, (*JSON, ("Content-Length", "1")), (*JSON, ("Transfer-Encoding", "chunked"))):
        assert (
            read(Answer(CHAT, 200, head, body, marks_of([body]), "complete")).outcome == "complete"
        )
