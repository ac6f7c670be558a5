"""The decoder gives the WHATWG algorithm's events, with their offsets, however the bytes are split."""

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shadow.sse import Comment, Decoder, Event, Truncation


def decode(*pieces):
    decoder = Decoder()
    items = [item for piece in pieces for item in decoder.feed(piece)]
    return items, decoder.close(), decoder.last_id, decoder.retry_ms


def slow(stream: bytes):  # noqa: C901 - the specification is one long algorithm
    """The specification's prose, character by character: an independent reading."""
    items, data, kind, last_id, retry, comments = [], [], "", "", None, []
    line, after_cr, first = b"", False, True

    def field(line):
        nonlocal kind, last_id, retry
        if line.startswith(b":"):
            comments.append(line[2:] if line[1:2] == b" " else line[1:])
            return
        name, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if name == b"event":
            kind = value.decode("utf-8", "replace")
        if name == b"data":
            data.append(value)
        if name == b"id" and b"\x00" not in value:
            last_id = value.decode("utf-8", "replace")
        if name == b"retry" and value and all(c in b"0123456789" for c in value):
            retry = int(value)

    for at in range(len(stream)):
        c = stream[at : at + 1]
        if c == b"\n" and after_cr:
            after_cr = False
            continue
        after_cr = c == b"\r"
        if c not in (b"\r", b"\n"):
            line += c
            continue
        if first and line.startswith(b"\xef\xbb\xbf"):
            line = line[3:]
        first = False
        if line:
            field(line)
        else:
            if comments or (kind and not data):
                text = b"\n".join(comments).decode("utf-8", "replace")
                items.append(Comment(kind, text, at + 1))
            if data:
                items.append(Event(kind or "message", b"\n".join(data), last_id, at + 1))
            data, kind, comments = [], "", []
        line = b""
    left = None
    if first and line.startswith(b"\xef\xbb\xbf"):
        line = line[3:]
    if line or data or comments or kind:
        if line:
            field(line)
        text = b"\n".join(comments).decode("utf-8", "replace")
        left = Truncation(kind or "message", b"\n".join(data), text, len(stream))
    return items, left, last_id, retry


EXAMPLES = {
    "stock ticker": (b"data: YHOO\ndata: +2\ndata: 10\n\n", [b"YHOO\n+2\n10"]),
    "test stream": (
        b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event",
        [b"first event", b"second event"],
    ),
    "empty data": (b"data\n\ndata\ndata\n\ndata:", [b"", b"\n"]),
    "one space": (b"data:test\n\ndata: test\n\n", [b"test", b"test"]),
    "CR": (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
    "CRLF": (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
    "mixed": (b"data: a\r\ndata: b\rdata: c\n\r\ndata: d\n\r", [b"a\nb\nc", b"d"]),
    "BOM": (b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", [b"a"]),
    "U+2028 and friends": (
        "data: a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\n\n".encode(),
        ["a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg".encode()],
    ),
    "trailing space": (b"data: {} \n\n", [b"{} "]),
    "unknown field": (b"foo: bar\ndata: a\n\n", [b"a"]),
    "blank lines": (b"\n\n\ndata: a\n\n\n\ndata: b\n\n", [b"a", b"b"]),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_at_every_split_and_byte_by_byte(name):
    """WHATWG's examples and the engines' shapes: same events, offsets and rest at every split."""
    stream, expected = EXAMPLES[name]
    whole = decode(stream)
    assert [item.data for item in whole[0] if isinstance(item, Event)] == expected
    assert whole == slow(stream)
    for at in range(len(stream) + 1):
        assert decode(stream[:at], stream[at:]) == whole, at
    assert decode(*(stream[i : i + 1] for i in range(len(stream)))) == whole


PARTS = st.sampled_from(
    [b"data", b"data: ", b"data:", b":", b": ping", b" ", b"event: error", b"id: 7", b"id: a\0b", b"retry: 12",
     b"retry: x", b"\n", b"\n", b"\n\n", b"\r", b"\r\n", b"\r\n\r\n", b"\xef\xbb\xbf", "é€😀\u2028".encode(), b"\xff",
     b"\xe2\x82", b"\0", b'{"a":1}', b"[DONE]"]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(PARTS, max_size=24).map(b"".join), st.data())
def test_any_stream_at_any_split_equals_the_slow_reading(stream, data):
    """Random streams of the grammar's pieces, cut anywhere, read as the specification's prose reads them."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    bounds = [0, *cuts, len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(bounds)]
    assert decode(*pieces) == slow(stream)


def test_an_event_is_out_with_its_last_byte():
    """A CR ends the blank line at once; the LF behind it belongs to nobody."""
    decoder = Decoder()
    assert decoder.feed(b"data: a\r\n") == []
    assert decoder.feed(b"\r") == [Event("message", b"a", "", 10)]
    assert decoder.feed(b"\n") == []
    assert decoder.feed(b"data: b\n\n") == [Event("message", b"b", "", 20)]
    assert decoder.close() is None


def test_comments_are_reported_with_their_block():
    """Dynamo's error (an event type and a comment, no data) and a ping reach the reader."""
    items, left, _, _ = decode(b"event: error\n: engine died\n\n: ping\n\nevent: done\n\n")
    assert items == [
        Comment("error", "engine died", 28),
        Comment("", "ping", 36),
        Comment("done", "", 49),
    ]
    assert left is None


@pytest.mark.parametrize(
    ("stream", "left"),
    [
        (b"data: a\n\ndata: b", Truncation("message", b"b", "", 16)),
        (b"data: a\n\ndata: b\n", Truncation("message", b"b", "", 17)),
        (b"event: error\n: it died", Truncation("error", b"", "it died", 22)),
        (b"data: a\n\ndat", Truncation("message", b"", "", 12)),
        (b"data: a\n\n", None),
        (b"data: a\n\r", None),
        (b"", None),
    ],
)
def test_what_has_no_blank_line_is_a_truncation(stream, left):
    """A final event without its blank line is not dispatched, and is not lost from sight either."""
    assert decode(stream)[1] == left


def test_data_that_is_not_utf8_is_kept_as_it_came():
    """The bytes stay; `text` puts U+FFFD where the specification does."""
    (event,), *_ = decode(b"data: a\xffb\n\n")
    assert event.data == b"a\xffb"
    assert event.text == "a\ufffdb"


def test_an_absurd_retry_is_ignored():
    """A retry of thousands of digits neither raises nor counts."""
    assert decode(b"retry: " + b"9" * 5000 + b"\n\ndata: a\n\n")[3] is None


def test_a_long_line_in_small_pieces_takes_linear_time():
    """600 KiB in one line, in pieces of 64 bytes: four times the bytes take about four times as long."""

    def seconds(size):
        stream = b"data: " + b"x" * size + b"\n\n"
        pieces = [stream[i : i + 64] for i in range(0, len(stream), 64)]
        best = 1e9
        for _ in range(5):
            begin = time.process_time()
            items, *_ = decode(*pieces)
            best = min(best, time.process_time() - begin)
        assert len(items) == 1
        assert len(items[0].data) == size
        return best

    assert seconds(4 * 600 * 1024) < 10 * seconds(
        600 * 1024
    )  # a quadratic reader would take 16 times
