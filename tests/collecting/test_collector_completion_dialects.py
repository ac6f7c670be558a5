"""Each path speaks one dialect, and each dialect is read to its own terminal event."""

import pytest
from collecting.answers import DONE, event, streamed, whole

from collector.completion import Fault, ToolCall
from collector.completion.dialects import dialect_of

MESSAGES, RESPONSES, COMPLETIONS = "/v1/messages", "/v1/responses", "/v1/completions"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/chat/completions", "openai_chat"),
        ("/v1/chat/completions/", "openai_chat"),
        ("/openai/deployments/x/chat/completions?api-version=1", "openai_chat"),
        ("/v1/completions", "openai_completions"),
        ("/v1/responses", "openai_responses"),
        ("/v1/messages?beta=true", "anthropic_messages"),
        ("/v1/embeddings", "openai_embeddings"),
        ("/v1/messages/count_tokens", None),
        ("/v1/chat/completions/batch", None),
        ("/v1/models?x=/v1/completions", None),
        ("/tokenize", None),
        ("", None),
    ],
)
def test_the_path_decides(path, name):
    """By its end, whatever stands before it; the query is none of it."""
    dialect = dialect_of(path)
    assert (dialect.name if dialect else None) == name


def test_completions():
    """Text in the choice; log-probabilities in their older shape; chat's shape under it too."""
    first = {
        "choices": [
            {
                "index": 0,
                "text": "a",
                "logprobs": {
                    "tokens": ["a"],
                    "token_logprobs": [-1.0],
                    "top_logprobs": [{"b": -2.0}],
                },
            }
        ]
    }
    last = {
        "choices": [
            {
                "index": 0,
                "text": "",
                "finish_reason": "length",
                "logprobs": {"content": [{"token": "c", "logprob": -3}]},
            }
        ]
    }
    done = streamed(first, last, DONE, path=COMPLETIONS)
    assert (done.dialect, done.outcome, done.choices[0].text) == (
        "openai_completions",
        "complete",
        "a",
    )
    assert [(e.token, e.logprob, e.top) for e in done.choices[0].logprobs] == [
        ("a", -1.0, (("b", -2.0),)),
        ("c", -3.0, ()),
    ]
    assert len(done.timeline.token_ns) == 1
    llama = whole({"content": "native", "stop_type": "eos"}, path=COMPLETIONS)
    assert (llama.outcome, llama.fault.type) == ("not_a_completion", "shape")


def responses(*events):
    return [event(each, each["type"]) for each in events]


def test_responses_streamed():
    """F27: response.created comes before any token; incomplete is an end of its own."""
    done = streamed(
        *responses(
            {"type": "response.created", "response": {"model": "m", "status": "in_progress"}},
            {"type": "response.reasoning_text.delta", "delta": "Hm"},
            {"type": "response.output_text.delta", "delta": "Hi"},
            {"type": "response.output_item.added", "output_index": 2, "item": {"type": "function_call", "id": "i", "name": "f"}},
            {"type": "response.function_call_arguments.delta", "output_index": 2, "item_id": "i", "delta": "{}"},
            {
                "type": "response.incomplete",
                "response": {
                    "model": "m",
                    "status": "incomplete",
                    "incomplete_details": {"reason": "max_output_tokens"},
                    "usage": {"input_tokens": 5, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 2},
                              "output_tokens_details": {"reasoning_tokens": 1}},
                },
            },
        ),
        path=RESPONSES,
    )  # fmt: skip
    assert (done.outcome, done.model, done.choices[0].text, done.choices[0].reasoning) == (
        "complete",
        "m",
        "Hi",
        "Hm",
    )
    assert done.choices[0].tool_calls == (ToolCall("i", "f", "{}"),)
    assert done.choices[0].finish_reason == "max_output_tokens"
    assert (done.usage.prompt_tokens, done.usage.completion_tokens) == (5, 4)
    assert (done.usage.cached_tokens, done.usage.reasoning_tokens) == (2, 1)
    assert done.timeline.data_ns[0] == 10_000_000
    assert (done.timeline.token_ns[0], done.timeline.answer_ns) == (20_000_000, 30_000_000)


def test_responses_that_fail_or_stop():
    """response.failed and error are in-band errors; [DONE] is no end here."""
    failed = {
        "type": "response.failed",
        "response": {"error": {"code": "server_error", "message": "oom"}},
    }
    assert streamed(*responses(failed), path=RESPONSES).fault == Fault("server_error", "oom")
    error = {"type": "error", "code": "x", "message": "boom"}
    assert streamed(*responses(error), path=RESPONSES).outcome == "in_band_error"
    cut = streamed(
        *responses({"type": "response.output_text.delta", "delta": "a"}), DONE, path=RESPONSES
    )
    assert cut.outcome == "no_terminal_event"


def test_responses_whole_and_without_deltas():
    """The output is read where it stands: in the document, or in the last event alone."""
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]},
        {
            "type": "message",
            "content": [
                {"type": "output_text", "text": "Hi"},
                {"type": "refusal", "refusal": "No"},
            ],
        },
        {"type": "function_call", "id": "i", "name": "f", "arguments": "{}"},
    ]
    document = {
        "object": "response",
        "status": "completed",
        "output": output,
        "usage": {"output_tokens": 3},
    }
    for done in (
        whole(document, path=RESPONSES),
        streamed(*responses({"type": "response.completed", "response": document}), path=RESPONSES),
    ):
        choice = done.choices[0]
        assert (done.outcome, choice.text, choice.reasoning, choice.refusal) == (
            "complete",
            "Hi",
            "Hm",
            "No",
        )
        assert choice.tool_calls == (ToolCall("i", "f", "{}"),)
    failed = whole(
        {
            "object": "response",
            "status": "failed",
            "error": {"code": "c", "message": "m"},
            "output": [],
        },
        path=RESPONSES,
    )
    assert (failed.outcome, failed.fault) == ("in_band_error", Fault("c", "m"))


def anthropic(*events):
    return [event(each, each["type"]) for each in events]


def test_messages_streamed():
    """F28: pings between; thinking, text and a tool; usage from both ends, caches in the prompt."""
    done = streamed(
        *anthropic(
            {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 7, "cache_read_input_tokens": 24, "output_tokens": 0}}},
            {"type": "ping"},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "xyz"}},
            {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hi"}},
            {"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}}},
            {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"a":'}},
            {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "1}"}},
            {"type": "content_block_stop", "index": 2},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": {"output_tokens": 9}},
            {"type": "message_stop"},
        ),
        path=MESSAGES,
    )  # fmt: skip
    choice = done.choices[0]
    assert (done.outcome, done.model, choice.text, choice.reasoning) == (
        "complete",
        "m",
        "Hi",
        "Hm",
    )
    assert (choice.tool_calls, choice.finish_reason) == (
        (ToolCall("t", "f", '{"a":1}'),),
        "tool_use",
    )
    assert (done.usage.prompt_tokens, done.usage.cached_tokens, done.tokens.count) == (31, 24, 9)
    assert len(done.timeline.data_ns) == 12
    assert len(done.timeline.token_ns) == 5
    assert (done.timeline.token_ns[0], done.timeline.answer_ns) == (40_000_000, 70_000_000)


def test_messages_errors_and_ends():
    """An error event is in-band; message_stop is the end, [DONE] is not."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    done = streamed(*anthropic(error), path=MESSAGES)
    assert (done.outcome, done.fault) == ("in_band_error", Fault("overloaded_error", "Overloaded"))
    start = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "a"},
    }
    assert streamed(*anthropic(start), DONE, path=MESSAGES).outcome == "no_terminal_event"
    whole_error = whole(error, path=MESSAGES)
    assert (whole_error.outcome, whole_error.fault.message) == ("in_band_error", "Overloaded")


def test_messages_whole():
    """Blocks of a whole message."""
    content = [
        {"type": "thinking", "thinking": "Hm"},
        {"type": "text", "text": "Hi"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
    ]
    document = {"type": "message", "model": "m", "content": content, "stop_reason": "stop_sequence", "stop_sequence": "#",
                "usage": {"input_tokens": 2, "output_tokens": 3}}  # fmt: skip
    done = whole(document, path=MESSAGES)
    choice = done.choices[0]
    assert (done.outcome, choice.text, choice.reasoning, choice.stop_reason) == (
        "complete",
        "Hi",
        "Hm",
        "#",
    )
    assert choice.tool_calls == (ToolCall("t", "f", '{"a":1}'),)


def test_embeddings():
    """Vectors are counted, not kept; none at all is no_tokens."""
    some = {
        "object": "list",
        "data": [{"embedding": [0.1]}, {"embedding": "AACA"}],
        "usage": {"prompt_tokens": 4},
    }
    done = whole(some, path="/v1/embeddings")
    assert (done.outcome, done.choices, done.usage.prompt_tokens) == ("complete", (), 4)
    assert whole({"data": []}, path="/v1/embeddings").outcome == "no_tokens"
    assert whole({"object": "list"}, path="/v1/embeddings").outcome == "not_a_completion"
