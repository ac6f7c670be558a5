"""Real answers, damaged in every way that we could think of: an outcome with a reason, always, in
bounded time and memory. A few hundred in `make test`, as long as one likes in `make fuzz`.
"""

import base64
import gzip
import json
import math
import os
import random
import time
import tracemalloc
import zlib
from dataclasses import asdict, replace
from pathlib import Path

import brotli
import pytest
from backports import zstd
from collecting.answers import CHAT, DONE, JSON, SSE, event, finish, marks_of, text
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.capture_file import answer_of, decoded
from collector.comparable import comparable
from collector.completion import Answer, read
from collector.measures import failure_of, measure
from shadow.content_coding import MOST_PLAIN_BYTES
from shadow.exchange import OUTCOMES, TRANSPORTS

SECONDS = float(os.environ.get("SHADOW_FUZZ_SECONDS", "0"))
CAPTURES = Path(__file__).parents[1] / "captures"
ANYWHERE = [CHAT, "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings", "/x"]
CODINGS = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda data: brotli.compress(data, quality=1),
    "zstd": zstd.compress,
}
ODD = [
    b"NaN", b"-Infinity", b"1e400", b"9" * 5000, b"-" + b"9" * 40, b"\\ud800", b"\\udc00\\ud800", b"\xed\xa0\x80", b"\xff", b"\0",
    b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\n\n", b"\r", b"\r\n\r\n", b"data: [DONE]\n\n", b"data:", b":\n", b"event: error\n", b"id: 1\n",
    b'"', b"{", b"}", b"]", b"null", b'{"error":{"message":"m"}}', b'"error":"x",', b'"usage":{"completion_tokens":-1},',
    b"[" * 3000, b'{"a":' * 3000, b'"choices":[],', b'"index":99999999999,', b'"index":"0",', b'"content":[],', b'"tool_calls":[{}],',
]  # fmt: skip
BASE_S, S_A_BYTE = 0.5, 5e-6
"""What reading may cost: measured at 0.1 us a byte, and a busy machine."""


GOOD = b"".join(event(each) for each in (text("a"), text("b"), finish())) + DONE
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["choices", "delta", "message", "content", "text", "tool_calls", "function", "arguments", "name", "id", "index",
             "usage", "completion_tokens", "error", "type", "code", "finish_reason", "logprobs", "tokens", "top_logprobs",
             "token_ids", "reasoning", "reasoning_content", "model", "response", "output", "item", "part", "content_block",
             "partial_json", "data", "embedding", "stop_reason", "prompt_tokens_details", "nvext", "timing", "object"]
        ),
        inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip
PATHS = st.sampled_from(ANYWHERE)
KINDS = st.sampled_from(
    ["response.output_text.delta", "response.completed", "response.failed", "response.output_item.added", "message_start",
     "content_block_start", "content_block_delta", "message_delta", "error", "ping", "response.function_call_arguments.delta"]
)  # fmt: skip


def bounded(examples):
    """So many examples in `make test`, more the longer `make fuzz` may take."""
    return settings(max_examples=int(max(examples, 20 * SECONDS)), deadline=None)


@bounded(300)
@given(
    PATHS,
    st.lists(st.tuples(JUNK, KINDS | st.none()), max_size=5),
    st.sampled_from(TRANSPORTS),
    st.sampled_from([200, 200, 400]),
)
def test_fuzz_json_of_any_shape(path, documents, transport, status):
    """Any JSON under the words that dialects use, as events and as a document."""
    pieces = []
    for document, kind in documents:
        if isinstance(document, dict) and kind:
            document["type"] = kind
        pieces.append(event(json.dumps(document), kind))
    pieces.append(DONE)
    check(Answer(path, status, SSE, b"".join(pieces), marks_of(pieces), transport))
    for document, _ in documents:
        body = json.dumps(document).encode()
        check(Answer(path, status, JSON, body, [(1, len(body))], transport))


@bounded(200)
@given(
    PATHS,
    st.binary(max_size=200),
    st.sampled_from([SSE, JSON, ()]),
    st.sampled_from(["", "gzip", "deflate", "zstd", "br", "br, gzip"]),
)
def test_fuzz_any_bytes(path, body, headers, coding):
    """Random bytes under any content type and coding."""
    headers = (*headers, ("content-encoding", coding))
    check(Answer(path, 200, headers, body, [(1, 3), (2, len(body))], "complete"))


@bounded(100)
@given(st.binary(min_size=1, max_size=60), st.integers(0, len(GOOD)))
def test_fuzz_bytes_in_a_good_stream(junk, at):
    """Good events with junk put in anywhere."""
    body = GOOD[:at] + junk + GOOD[at:]
    check(Answer(CHAT, 200, SSE, body, [(1, at), (2, len(body))], "complete"))


@bounded(60)
@given(st.lists(st.tuples(st.integers(-(10**12), 10**12), st.integers(-10, 10**6)), max_size=8))
def test_fuzz_marks_of_any_shape(marks):
    """Marks that go back, overshoot or fall short."""
    check(Answer(CHAT, 200, SSE, GOOD, marks, "complete"))
    headers = (*SSE, ("content-encoding", "gzip"))
    check(Answer(CHAT, 200, headers, gzip.compress(GOOD), marks, "complete"))


def real_answers():
    """Every capture, without its engine's names."""
    paths = sorted(path for path in CAPTURES.glob("*/*.json") if path.parent.name != "expected")
    return [answer_of(json.loads(path.read_text())) for path in paths]


REAL = real_answers()


def mutated(rng):
    """A real answer with a few things wrong."""
    answer = rng.choice(REAL)
    body = answer.body
    for _ in range(rng.choice([0, 1, 1, 2, 5])):
        at, size = rng.randrange(len(body) + 1), rng.choice([0, 0, 1, 2, 30, 400])
        new = rng.choice([rng.choice(ODD), rng.randbytes(rng.randrange(8)), body[at - size : at]])
        body = body[:at] + new + body[at + size :]
    if rng.random() < 0.3:
        body = body[: rng.randrange(len(body) + 1)]
    headers = list(answer.headers)
    if rng.random() < 0.3:
        coding = rng.choice(list(CODINGS))
        body = CODINGS[coding](body)
        headers.append(("Content-Encoding", coding))
        if rng.random() < 0.5:
            at = rng.randrange(len(body) + 1)
            body = body[:at] + rng.randbytes(rng.randrange(3)) + body[at + 1 :]
    if rng.random() < 0.1:
        headers = [("content-type", rng.choice(["text/event-stream", "application/json", "", "x"]))]
    gap = rng.randrange(1000) if rng.random() < 0.1 else 0
    return Answer(
        path=answer.path if rng.random() < 0.8 else rng.choice(ANYWHERE),
        status=rng.choice([answer.status, answer.status, 200, 500, 302, None]),
        headers=headers,
        body=body,
        marks=marks(rng, len(body) + gap),
        transport=rng.choice([answer.transport, *TRANSPORTS]),
        gap_bytes=gap,
        tail_bytes=rng.randrange(len(body) + 1) if gap else 0,
    )


def marks(rng, size):
    """Mostly as reads come; sometimes none, backwards or beyond."""
    if rng.random() < 0.1:
        return [
            (rng.randrange(10**9), rng.randrange(2 * size + 2)) for _ in range(rng.randrange(4))
        ]
    ends = [*sorted(rng.randrange(size + 1) for _ in range(rng.randrange(6))), size]
    return [(at * 1_000_000, end) for at, end in enumerate(ends)]


def check(answer):
    """An outcome with a reason, strict JSON, finite measures, text that can be stored, in time."""
    begin = time.process_time()
    done = read(answer)
    document = decoded(answer)
    assert time.process_time() - begin < BASE_S + S_A_BYTE * len(answer.body)
    assert done.outcome in OUTCOMES
    assert (done.fault is None) == (done.outcome == "complete")
    assert failure_of(done) in (0, 1, None)
    if done.dialect and done.outcome == "not_a_completion":
        assert done.unreadable_events  # so that its bytes are kept
    numbers = asdict(measure(done, answer.marks[-1][0] if answer.marks else None)).values()
    assert all(number is None or math.isfinite(number) for number in numbers)
    json.dumps(document, allow_nan=False).encode()
    (comparable(done) or "").encode()
    return done.outcome


def fuzz(rng):
    """One answer, and what to say of it if it fails."""
    answer = mutated(rng)
    try:
        return check(answer)
    except Exception as error:
        shown = {
            **asdict(replace(answer, body=b"")),
            "body": base64.b64encode(answer.body).decode(),
        }
        raise AssertionError(f"{type(error).__name__}: {error}: {shown}") from error


def test_fuzz_of_real_answers():
    """Seeded, so that it is the same every time; it reaches every outcome that an answer can have."""
    rng = random.Random(14)
    reached = {fuzz(rng) for _ in range(4000)}
    assert reached == set(OUTCOMES)


@pytest.mark.parametrize("coding", ["", *CODINGS])
def test_fuzz_truncation_at_every_byte(coding):
    """A real stream cut at every byte, plain and coded: never complete before its last event."""
    pieces = [event(text(word)) for word in ("a", "\u2028", "\U0001f600")] + [event(finish()), DONE]
    plain = b"".join(pieces)
    body = CODINGS[coding](plain) if coding else plain
    for cut in range(len(body)):
        answer = Answer(
            CHAT, 200, (*SSE, ("content-encoding", coding)), body[:cut], [(1, cut)], "truncated"
        )
        # a coding's own end may be missing although every event is there
        assert check(answer) in (
            {"truncated_upstream", "complete"} if coding else {"truncated_upstream"}
        )


@pytest.mark.parametrize("coding", ["", "gzip"])
def test_fuzz_lines_of_any_length(coding):
    """600 KiB in one data line, one document, one comment, in 1 KiB reads: whole, in linear time."""
    long = "x" * 600 * 1024
    body = event(text(long)) + f": {long}\n\n".encode() + event(finish()) + DONE
    coded = CODINGS[coding](body) if coding else body
    pieces = [coded[at : at + 1024] for at in range(0, len(coded), 1024)]
    answer = Answer(
        CHAT, 200, (*SSE, ("content-encoding", coding)), coded, marks_of(pieces), "complete"
    )
    assert check(answer) == "complete"
    assert read(answer).choices[0].text == long
    unended = replace(answer, body=coded[: len(coded) // 3])
    assert check(unended) != "complete"


def peak_bytes(answer):
    """The most that reading held at once."""
    tracemalloc.start()
    try:
        read(answer)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_fuzz_memory_is_bounded():
    """What reading tiny events holds is a small multiple of the body."""
    tiny = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n' * 20_000
    assert peak_bytes(Answer(CHAT, 200, SSE, tiny, [(1, len(tiny))], "complete")) < 20 * len(tiny)


@pytest.mark.skipif(not SECONDS, reason="SHADOW_FUZZ_SECONDS is not set")
def test_long_fuzz_memory_of_a_bomb():
    """A gigabyte in a megabyte: at most the bound and a copy of it."""
    packer = zlib.compressobj(wbits=31)
    bomb = b"".join([packer.compress(b"\0" * 2**20) for _ in range(1000)]) + packer.flush()
    headers = (*SSE, ("content-encoding", "gzip"))
    answer = Answer(CHAT, 200, headers, bomb, marks_of([bomb]), "complete")
    assert peak_bytes(answer) < 2.2 * MOST_PLAIN_BYTES
    assert read(answer).outcome == "truncated_capture"


@pytest.mark.skipif(not SECONDS, reason="SHADOW_FUZZ_SECONDS is not set")
def test_long_fuzz_of_tiny_events_up_to_the_bound():
    """Linear to the end: as many events as are read, of a few bytes and of one token."""
    for tiny, events in (
        (b"data: {}\n\n", 0),
        (b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n', 250_000),
    ):
        body = tiny * 250_000
        begin = time.process_time()
        done = read(Answer(CHAT, 200, SSE, body, [(1, len(body))], "reset"))
        assert (done.tokens.count or 0, len(done.timeline.data_ns)) == (events, 250_000)
        assert time.process_time() - begin < 120


@pytest.mark.skipif(not SECONDS, reason="SHADOW_FUZZ_SECONDS is not set")
def test_long_fuzz_of_the_decoder():
    """For as long as one likes: the seed is printed on failure, with the answer."""
    seed = int(os.environ.get("SHADOW_FUZZ_SEED", time.time_ns()))
    rng = random.Random(seed)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        try:
            fuzz(rng)
        except AssertionError as error:
            raise AssertionError(f"SHADOW_FUZZ_SEED={seed}: {error}") from error
