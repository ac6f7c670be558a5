"""No answer is a poison pill: whatever a few hundred kilobytes hold, a record costs bounded memory
and seconds, and has its rows with a reason. What real answers hold is below every bound.
"""

import gzip
import json
import subprocess
import sys
import time

import orjson
import pytest
from collecting.answers import CHAT, DONE, JSON, SSE, event, finish, marks_of, text
from collecting.records import exchange

from collector import decode as decoding
from collector.comparable import normal
from collector.completion import Answer, read
from collector.decode import rows_of
from collector.json_text import MOST_BYTES, TooMuch, loads
from shadow.content_coding import CodingUnread, undo
from shadow.exchange import MalformedRecord, encode

MIB = 2**20
GZIP = ("content-encoding", "gzip")
BOUNDED = """
import resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))
from collector.decode import rows_of
value, begin = sys.stdin.buffer.read(), time.process_time()
row = rows_of(value, "text")["exchanges"][0]
print(row["outcome"], row["error"], round(time.process_time() - begin, 1), sep="|")
"""


def packed(tiny, megabytes):
    """So much of the same few bytes, as a gzip of a thousandth."""
    return gzip.compress(tiny * (megabytes * MIB // len(tiny)), 9)


BOMBS = {
    "half a gigabyte of events": (SSE, packed(b"data:{}\n\n", 512)),
    "events up to the bound": (SSE, packed(b"data:{}\n\n", 8)),
    "a document of objects": (JSON, packed(b'[{"a":[]}],', 200)),
    "a small document of objects": (JSON, gzip.compress(b'{"choices":[' + b"{}," * (7 * MIB // 3) + b"{}]}")),
    "choices without end": (SSE, gzip.compress(b"".join(b'data:{"choices":[{"index":%d}]}\n\n' % n for n in range(10**5)))),
    "calls without end": (SSE, gzip.compress(event(json.dumps({"choices": [{"delta": {"tool_calls": [
        {"index": n, "function": {"name": "f"}} for n in range(110_000)]}}]})) + DONE)),
    "log-probabilities without end": (SSE, gzip.compress(event(json.dumps({"choices": [{"logprobs": {
        "tokens": [""] * 1_900_000}}]})) + DONE)),
}  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_an_outcome_with_a_reason(bomb):
    """In a process that may have 3 GiB of addresses, in seconds: a row that says what it was."""
    headers, body = BOMBS[bomb]
    assert len(body) < 2 * MIB
    value = encode(exchange(body=body, headers=[*headers, GZIP], marks=[(1, len(body))]))
    done = subprocess.run(
        [sys.executable, "-c", BOUNDED], input=value, capture_output=True, timeout=60, check=True
    )
    outcome, error, seconds = done.stdout.decode().split("|")
    assert outcome == "truncated_capture"
    assert "more than" in error or "beyond its bound" in error
    assert float(seconds) < 5


FLOODS = {
    "empty data": b"data:\n\n", "empty objects": b"data:{}\n\n", "comments": b":\n",
    "blocks of comments": b":\n\n", "lines of data": b"data:x\n", "blank lines": b"\n", "CR": b"\r",
    "ids": b"id:1\n", "types": b"event:a\n\n",
}  # fmt: skip


@pytest.mark.parametrize("flood", FLOODS)
def test_eight_megabytes_of_nothing_are_cheap(flood):
    """What is left after the bound costs less than half of what it did, a second on its own."""
    body = FLOODS[flood] * (8 * MIB // len(FLOODS[flood]))
    begin = time.process_time()
    done = read(Answer(CHAT, 200, SSE, body, [(1, len(body))], "complete"))
    assert time.process_time() - begin < 2
    assert done.outcome == "truncated_capture"
    assert done.fault is not None
    assert (done.fault.type, done.text_whole, done.timeline.whole) == ("capture", False, False)
    assert "more than" in done.fault.message


def test_usage_on_every_event_under_other_names_is_linear():
    """Each event's usage is added to what was there, not copied with it."""
    pieces = [event(json.dumps({"usage": {f"k{n}": n}})) for n in range(30_000)]
    body = b"".join([*pieces, event(text("a")), event(finish()), DONE])
    begin = time.process_time()
    assert read(Answer(CHAT, 200, SSE, body, [(1, len(body))], "complete")).outcome == "complete"
    assert time.process_time() - begin < 2


def test_a_heap_of_combining_marks_is_compared_as_it_stands():
    """NFC sorts them in quadratic time; words that people write are normalised however long."""
    heap = "a" + "\u0300\u0323" * MIB
    begin = time.process_time()
    assert normal(heap) == heap
    assert time.process_time() - begin < 2
    assert normal("e\u0301 " * 1000) == " ".join(["\u00e9"] * 1000)
    assert normal("\uac00" * 5000) == normal("\u1100\u1161" * 5000)


def test_members_without_end_are_refused():
    """Eight megabytes of empty gzip members: neither copied quadratically nor gone through."""
    body = gzip.compress(b"") * (8 * MIB // 20)
    begin = time.process_time()
    with pytest.raises(CodingUnread, match="members"):
        undo("gzip", body, [(1, len(body))])
    assert time.process_time() - begin < 5


def test_what_real_answers_hold_is_read():
    """A hundred thousand tokens, compressed; a megabyte of one word, over and over, compressed."""
    pieces = [event(text(f"word{n} ")) for n in range(100_000)]
    body = b"".join([*pieces, event(finish()), DONE])
    coded = gzip.compress(body)
    done = read(Answer(CHAT, 200, (*SSE, GZIP), coded, marks_of([coded]), "complete"))
    assert (done.outcome, done.tokens.count) == ("complete", 100_000)
    document = json.dumps(
        {"choices": [{"message": {"content": "!" * MIB}, "finish_reason": "stop"}]}
    )
    coded = gzip.compress(document.encode())
    done = read(Answer(CHAT, 200, (*JSON, GZIP), coded, marks_of([coded]), "complete"))
    assert (done.outcome, len(done.choices[0].text)) == ("complete", MIB)


def test_a_document_is_bounded_by_bytes_objects_and_values():
    """Each bound by itself; one below all of them is read."""
    assert len(loads(b"[" + b"1," * 1_000_000 + b"1]")) == 1_000_001
    for data in (b'"' + b"x" * MOST_BYTES + b'"', b"[{}]" * 600_000, b"1," * 2_100_000):
        with pytest.raises(TooMuch, match="more than"):
            loads(data)


@pytest.mark.parametrize("error", [MemoryError(), RecursionError("deep"), ValueError("a slip")])
def test_what_our_reader_fails_at_is_an_outcome(monkeypatch, error):
    """A record that cannot be read is a row with the reason and its bytes, never a dead letter."""

    def fail(answer):
        raise error

    monkeypatch.setattr(decoding, "read", fail)
    rows = rows_of(encode(exchange(body=b"what it was")), "text")
    assert rows["exchanges"][0]["outcome"] == "truncated_capture"
    assert rows["exchanges"][0]["error"].startswith("decoder: ")
    assert rows["exchanges"][0]["failure"] is None
    assert rows["bodies"][0]["raw"] == b"what it was"


def test_a_record_that_is_none_is_bad_even_without_memory(monkeypatch):
    """What not even the wire's reader can hold is a bad value: it fails the same way again."""

    def fail(value):
        raise MemoryError

    monkeypatch.setattr(decoding, "decode", fail)
    with pytest.raises(MalformedRecord, match="MemoryError"):
        rows_of(b"{}", "text")


def test_what_orjson_cannot_say_is_said_otherwise():
    """An index beyond 64 bits in a document with NaN; a lone surrogate as a rival's token."""
    huge = b'{"choices":[{"index":99999999999999999999999,"message":{"content":"a"},"x":NaN}]}'
    rows = rows_of(encode(exchange(body=huge, headers=JSON)), "text")
    assert orjson.loads(rows["bodies"][0]["answer"]) == [{"index": 0, "text": "a"}]
    lone = b'{"choices":[{"text":"a","logprobs":{"tokens":["a"],"top_logprobs":[{"\\ud800":-1}]}}]}'
    rows = rows_of(encode(exchange(body=lone, headers=JSON, path="/v1/completions")), "text")
    assert rows["exchanges"][0]["outcome"] == "complete"
    assert "\\ufffd" in json.dumps(orjson.loads(rows["bodies"][0]["answer"]))
