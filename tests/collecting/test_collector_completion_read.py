"""Whatever the bytes, an outcome with a reason: never an exception, never unbounded time."""

import gzip
import random
import time
import zlib

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

from collector.completion import Answer, Completion, Fault, read
from collector.json_text import said
from collector.measures import failure_of
from shadow.exchange import OUTCOMES, TRANSPORTS

GOOD = b"".join(event(each) for each in (text("a"), text("b"), finish())) + DONE


@pytest.mark.parametrize(
    ("transport", "outcome"),
    [
        ("complete", "truncated_upstream"),
        ("client_disconnected", "client_disconnected"),
        ("reset", "truncated_upstream"),
        ("connect_failed", "no_tokens"),
        ("timed_out", "truncated_upstream"),
        ("deadline_short", "truncated_capture"),
        ("truncated", "truncated_upstream"),
        ("malformed", "truncated_upstream"),
        ("breaker_open", "no_tokens"),
        ("cut_by_drain", "truncated_capture"),
        ("a word of later", "truncated_upstream"),
    ],
)
def test_every_transport_without_an_answer(transport, outcome):
    """No status at all: who is to blame follows from the transport, known or not."""
    done = read(Answer(CHAT, None, (), b"", (), transport, "why"))
    assert (done.outcome, done.fault.message) == (outcome, "why")


@pytest.mark.parametrize("transport", ["connect_failed", "breaker_open"])
def test_what_was_never_sent_is_a_failure_without_tokens(transport):
    """Nothing was cut short, for nobody was asked; to the arm it counts as any failure."""
    done = read(Answer(CHAT, None, (), b"", (), transport, None))
    assert (done.outcome, failure_of(done)) == ("no_tokens", 1)
    assert done.fault == Fault(transport, "the request was never sent")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_the_engine_said_stands_whatever_cut_it_later(transport):
    """[DONE], an in-band error or an error status is known even if the connection broke after it:
    many clients leave at [DONE]."""
    assert streamed(GOOD, transport=transport).outcome == "complete"
    assert streamed({"error": "x"}, transport=transport).outcome == "in_band_error"
    assert whole({"error": "x"}, status=503, transport=transport).outcome == "http_error"


@pytest.mark.parametrize(
    ("transport", "outcome"),
    [
        ("client_disconnected", "client_disconnected"),
        ("cut_by_drain", "truncated_capture"),
        ("reset", "truncated_upstream"),
    ],
)
def test_a_document_cut_short(transport, outcome):
    """Half a JSON document: the transport says who cut it."""
    assert whole(b'{"choices":[{"mess', transport=transport).outcome == outcome


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b'{"error":{"message":"m","type":"t"}}', Fault("t", "m")),
        (b'{"detail":"Not Found"}', Fault(None, "Not Found")),
        (b'{"detail":[{"loc":["body"],"msg":"x"}]}', Fault(None, '[{"loc":["body"],"msg":"x"}]')),
        (b'{"message":"m"}', Fault(None, "m")),
        (b"upstream connect error", Fault(None, "upstream connect error")),
        (b"", Fault(None, "HTTP 503")),
        (b"[]", Fault(None, "HTTP 503")),
        (b"\xff\xfe", Fault(None, "\ufffd\ufffd")),
    ],
)
def test_an_error_status_with_its_body(body, fault):
    """F31: the body's words, whatever its shape and content type."""
    for headers in (JSON, (), (("content-type", "text/html"),)):
        done = whole(body, status=503, headers=headers)
        assert (done.outcome, done.fault) == ("http_error", fault)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Answer("/v1/models", 200, JSON, b"{}", (), "complete"), "not_a_completion"),
        (Answer(CHAT, 200, (("content-type", "text/html"),), b"<html>", (), "complete"), "not_a_completion"),
        (Answer(CHAT, 200, JSON, b"[1]", (), "complete"), "not_a_completion"),
        (Answer(CHAT, 200, JSON, b"<html>", (), "complete"), "not_a_completion"),
        (Answer(CHAT, 200, JSON, b'{"object":"list","data":[]}', (), "complete"), "not_a_completion"),
        (Answer(CHAT, 302, JSON, b"", (), "complete"), "no_tokens"),
        (Answer(CHAT, 200, JSON, b"", (), "complete"), "no_tokens"),
        (Answer(CHAT, 200, (), GOOD, (), "complete"), "complete"),  # no content type: by its first bytes
        (Answer(CHAT, 200, (("Content-Type", "text/plain"),), b'{"choices":[{"message":{"content":"a"}}]}', (), "complete"), "complete"),
        (Answer(CHAT, 200, (("content-type", "APPLICATION/PROBLEM+JSON;x=y"),), b'{"error":"x"}', (), "complete"), "in_band_error"),
    ],
)  # fmt: skip
def test_content_types(answer, outcome):
    """The content type decides; where it says nothing, the first bytes do."""
    assert read(answer).outcome == outcome


def test_an_answer_without_marks_has_text_and_no_times():
    """Times are null, not invented."""
    done = read(Answer(CHAT, 200, SSE, GOOD, (), "complete"))
    assert done.choices[0].text == "ab"
    assert done.timeline.data_ns == done.timeline.token_ns == ()


def gap(pieces, head, tail):
    """The whole stream with all but `head` and `tail` bytes cut out; marks of the whole."""
    body = b"".join(pieces)
    kept = body[:head] + body[len(body) - tail :]
    return Answer(
        CHAT, 200, SSE, kept, marks_of(pieces), "complete", None, len(body) - head - tail, tail
    )


def test_a_gap_in_the_capture_keeps_outcome_usage_and_times():
    """Beyond answer_bytes the tail is kept: the end is known, the text is not whole, and nothing
    that spans the gap is given out as if it had been seen."""
    pieces = [event(text(f"word{n} ")) for n in range(200)] + [
        event(finish("length")),
        event(usage(200)),
        DONE,
    ]
    done = read(gap(pieces, 3000, 900))
    assert (done.outcome, done.choices[0].finish_reason) == ("complete", "length")
    assert (done.tokens.count, done.tokens.source) == (200, "usage")
    assert not done.text_whole
    assert not done.timeline.whole
    assert done.timeline.token_ns[0] == 10_000_000
    assert done.timeline.token_ns[-1] == 2_000_000_000  # the 200th piece
    without_usage = read(gap([*pieces[:-2], DONE], 3000, 900))
    assert without_usage.tokens.count is None


def test_a_gap_that_hides_the_end():
    """No tail, or a tail without the end of any event: truncated_capture."""
    pieces = [event(text("word")) for _ in range(100)] + [DONE]
    assert read(gap(pieces, 3000, 0)).outcome == "truncated_capture"
    assert (
        read(gap([*pieces[:-1], event(text("x" * 5000))], 3000, 900)).outcome == "truncated_capture"
    )
    document = Answer(CHAT, 200, JSON, b'{"choices":', (), "complete", None, 50, 0)
    assert read(document).outcome == "truncated_capture"


def test_a_tail_at_every_length():
    """Wherever the tail begins, the outcome is complete as soon as it holds a whole [DONE]."""
    pieces = [event(text(f"w{n}")) for n in range(20)] + [DONE]
    size = sum(map(len, pieces))
    for tail in range(size - 500):
        done = read(gap(pieces, 400, tail))
        assert done.outcome == ("complete" if tail >= len(DONE) + 2 else "truncated_capture"), tail


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_compressed_streams_keep_their_times(coding):
    """F20: with a flush an event, each event has its own read's time; without one, the read's that
    let it out."""
    compressor = zlib.compressobj(wbits=31 if coding == "gzip" else 15)
    pieces = [
        compressor.compress(event(text(str(n)))) + compressor.flush(zlib.Z_SYNC_FLUSH)
        for n in range(5)
    ]
    pieces.append(compressor.compress(DONE) + compressor.flush())
    headers = (*SSE, ("Content-Encoding", coding))
    done = streamed(*pieces, headers=headers)
    assert (done.outcome, done.choices[0].text) == ("complete", "01234")
    assert done.timeline.token_ns == tuple(n * 10_000_000 for n in range(1, 6))
    at_once = gzip.compress(GOOD)
    cut = len(at_once) - 9
    late = streamed(at_once[:cut], at_once[cut:], headers=(*SSE, ("content-encoding", "gzip")))
    assert late.outcome == "complete"
    assert len(set(late.timeline.token_ns)) == 1


def test_codings_that_cannot_be_undone():
    """An unknown coding or a bomb is ours to admit; damage is the sender's."""
    unknown = whole({"choices": []}, headers=(*JSON, ("content-encoding", "compress")))
    assert (unknown.outcome, unknown.fault) == (
        "truncated_capture",
        Fault("content_coding", "content coding 'compress' cannot be read"),
    )
    damaged = whole(b"not gzip at all", headers=(*JSON, ("content-encoding", "gzip")))
    assert (damaged.outcome, damaged.fault.type) == ("truncated_upstream", "content_coding")


def test_a_gap_in_coded_bytes_keeps_the_head():
    """What stands before the gap is read; the end is unknown."""
    raw = random.Random(5).randbytes(20_000).hex()
    body = gzip.compress(event(text("Hi")) + event(text(raw)) + DONE)
    kept = body[:8000] + body[-500:]
    answer = Answer(
        CHAT,
        200,
        (*SSE, ("content-encoding", "gzip")),
        kept,
        [(1, 8000), (2, len(body))],
        "complete",
        None,
        len(body) - 8500,
        500,
    )
    done = read(answer)
    assert (done.outcome, done.choices[0].text) == ("truncated_capture", "Hi")


def always_an_outcome(done):
    assert isinstance(done, Completion)
    assert done.outcome in OUTCOMES
    assert (done.fault is None) == (done.outcome == "complete")
    for choice in done.choices:
        (
            choice.text
            + choice.reasoning
            + choice.refusal
            + "".join(c.name + c.arguments for c in choice.tool_calls)
        ).encode()
    if done.fault:
        done.fault.message.encode()


def test_truncation_at_every_byte():
    """A stream cut at every byte, plain and compressed: never complete before its [DONE]."""
    for cut in range(len(GOOD)):
        done = streamed(GOOD[:cut], transport="truncated")
        always_an_outcome(done)
        assert done.outcome == "truncated_upstream"
    coded = gzip.compress(GOOD)
    for cut in range(len(coded)):
        always_an_outcome(
            streamed(
                coded[:cut], transport="truncated", headers=(*SSE, ("content-encoding", "gzip"))
            )
        )


@pytest.mark.parametrize(
    "odd",
    [
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        "[" * 2_000 + "]" * 2_000,
        '{"choices":[{"delta":{"content":"a"}}],"n":' + "9" * 5000 + "}",
        '{"choices":[{"index":1e400,"delta":{"content":NaN}}]}',
        '{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":'
        + "[" * 1200
        + "]" * 1200
        + "}}]}}]}",
        '{"error":' + "[" * 1000 + "]" * 1000 + "}",
    ],
    ids=["deep object", "deep list", "huge integer", "NaN", "deep arguments", "deep error"],
)
def test_json_that_parsers_choke_on(odd):
    """Deep nesting, huge integers, NaN and Infinity."""
    always_an_outcome(streamed(text("a"), event(odd), DONE))
    always_an_outcome(whole(odd.encode()))
    always_an_outcome(whole(odd.encode(), status=500))


def test_many_tiny_events():
    """Linear: ten times the events take about ten times as long."""

    def seconds(count):
        body = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n' * count
        begin = time.process_time()
        done = read(Answer(CHAT, 200, SSE, body, [(1, len(body))], "reset"))
        assert done.tokens.count == count
        return time.process_time() - begin

    small = min(seconds(10_000) for _ in range(3))
    assert seconds(100_000) < 30 * small


def test_said_survives_what_was_read():
    """Text of read JSON: lone surrogates replaced, depth given up."""
    assert said({"b": 1, "a": "\ud800"}, sort_keys=True) == '{"a":"\ufffd","b":1}'
    deep = None
    for _ in range(100_000):
        deep = [deep]
    assert said(deep) == ""


def test_stop_reasons_of_any_size():
    """A stop token id beyond 64 bits is no reason to fail."""
    chunk = delta(finish="stop", content="a")
    chunk["choices"][0]["stop_reason"] = 2**80
    done = streamed(chunk, DONE)
    assert (done.choices[0].finish_reason, done.choices[0].stop_reason) == ("stop", None)
