"""Each dialect's events on the wire, as the four engines write them."""

import orjson
import pytest

from .serving import answers, chat, quick

USAGE = {"stream_options": {"include_usage": True}}
ALL = ["vllm", "sglang", "trtllm", "llama.cpp"]


def stream(dialect, **fields):
    changes = {"reasoning_tokens": fields.pop("reasoning_tokens", 0)}
    return answers(quick(dialect=dialect, tokens=30, **changes), chat(max_tokens=4, **fields))[0]


@pytest.mark.parametrize(
    ("dialect", "role"),
    [
        ("vllm", {"role": "assistant", "content": ""}),
        ("sglang", {"role": "assistant", "content": "", "reasoning_content": None}),
        ("trtllm", {"role": "assistant"}),
        ("llama.cpp", {"role": "assistant", "content": None}),
    ],
)
def test_role_event(dialect, role):
    """The first event is the role alone; its content is empty, absent or null."""
    assert stream(dialect).events[0]["choices"][0]["delta"] == role


@pytest.mark.parametrize("dialect", ALL)
def test_finish_event(dialect):
    """The reason stands on the last token's event, or in an event of its own."""
    last = stream(dialect).events[-1]["choices"][0]
    assert last["finish_reason"] == "length"
    assert bool(last["delta"].get("content")) == (dialect in {"vllm", "trtllm"})


@pytest.mark.parametrize("dialect", ALL)
def test_event_ends(dialect):
    """trtllm leaves a space behind each event; [DONE] closes all of them."""
    seen = stream(dialect, **USAGE)
    assert (b"} \n\n" in seen.body) == (dialect == "trtllm")
    assert (b"}\n\n" in seen.body) == (dialect != "trtllm")
    assert seen.done


@pytest.mark.parametrize("dialect", ALL)
def test_usage_event(dialect):
    """On request only: the last event, no choices, counts of both sides."""
    assert all(not e.get("usage") for e in stream(dialect).events)
    last = stream(dialect, **USAGE).events[-1]
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 4
    assert last["usage"]["total_tokens"] == last["usage"]["prompt_tokens"] + 4


def test_writes():
    """llama.cpp joins the first two events and the last ones in one chunk; vLLM never does."""
    joined = [chunk.count(b"data: ") for chunk in stream("llama.cpp", **USAGE).chunks]
    assert joined == [2, 1, 1, 1, 3]
    assert {chunk.count(b"data: ") for chunk in stream("vllm", **USAGE).chunks} == {1}


@pytest.mark.parametrize("dialect", ALL)
def test_reasoning(dialect):
    """Reasoning comes first, in the dialect's own field, and counts in usage."""
    seen = stream(dialect, reasoning_tokens=3, **USAGE)
    field = "reasoning" if dialect == "vllm" else "reasoning_content"
    deltas = [c["delta"] for e in seen.events for c in e["choices"]]
    assert [bool(d.get(field)) for d in deltas[1:4]] == [True] * 3
    assert not any(d.get(field) for d in deltas[4:])
    assert seen.events[-1]["usage"]["completion_tokens"] == 7


def test_sglang_always_has_the_reasoning_field():
    """SGLang serialises it deliberately, null where there is none; its finish has matched_stop."""
    choices = [c for e in stream("sglang").events for c in e["choices"]]
    assert all("reasoning_content" in c["delta"] for c in choices)
    assert "matched_stop" in choices[-1]


@pytest.mark.parametrize("dialect", ALL)
def test_all_say_the_same(dialect):
    """Four dialects, streamed and not, chat and bare completions: one text."""
    _, body = chat()
    whole, streamed, plain = answers(
        quick(dialect=dialect),
        chat(stream=False),
        chat(),
        ("/v1/completions", {"prompt": body["messages"], "model": "sim", "stream": True}),
    )
    expected = answers(quick(), chat())[0].text
    assert expected
    assert orjson.loads(whole.body)["choices"][0]["message"]["content"] == expected
    assert streamed.text == plain.text == expected
    assert plain.done


@pytest.mark.parametrize("dialect", ALL)
def test_errors_have_the_dialects_shape(dialect):
    """trtllm's lie flat, the others' under `error`; an unknown model is refused by vLLM alone."""
    bad, unknown = answers(
        quick(dialect=dialect), ("/v1/chat/completions", b"{"), chat(model="other")
    )
    document = orjson.loads(bad.body)
    assert bad.status == 400
    assert (document if dialect == "trtllm" else document["error"])["message"] == "not JSON"
    assert unknown.status == (404 if dialect == "vllm" else 200)
