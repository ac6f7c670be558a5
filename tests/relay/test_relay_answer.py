"""Answers' heads: one reading is chosen where any can be, and only without one they are refused."""

from __future__ import annotations

import pytest

from shadow.relay.answer import BadAnswer, find_answer_head, parse_answer
from shadow.relay.fields import CHUNKED, UNTIL_CLOSE


def parsed(fields: bytes, line: bytes = b"HTTP/1.1 200 OK", **how):
    return parse_answer(line + b"\r\n" + fields, **{"bodyless": False, **how})


@pytest.mark.parametrize(
    ("fields", "length", "keep"),
    [
        (b"Content-Length: 7", 7, True),
        (b"Content-Length: 7\r\nConnection: close", 7, False),
        (b"Content-Length:7, 7\r\ncontent-length: 7", 7, True),
        (b"Transfer-Encoding: chunked", CHUNKED, True),
        (b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked", CHUNKED, True),
        (b"Transfer-Encoding: gzip", UNTIL_CLOSE, True),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 7", CHUNKED, False),
        (b"X: y", UNTIL_CLOSE, True),
    ],
)
def test_framing(fields, length, keep):
    """Chunked before a length before the connection's end; both together: nothing is reused."""
    head = parsed(fields)
    assert (head.length, head.keep) == (length, keep)


@pytest.mark.parametrize("status", [b"100", b"204", b"304"])
def test_no_body(status):
    """1xx, 204 and 304 have none, whatever their fields say; a HEAD's answer neither."""
    assert parsed(b"Content-Length: x", b"HTTP/1.1 " + status).length == 0
    assert parsed(b"Transfer-Encoding: chunked", bodyless=True).length == 0


@pytest.mark.parametrize("status", [b"000", b"042", b"099"])
def test_a_status_below_100_is_no_interim_one(status):
    """Nothing follows it: it is the answer, with its body."""
    assert parsed(b"Content-Length: 2", b"HTTP/1.1 " + status).length == 2


@pytest.mark.parametrize(
    "fields",
    [b"Content-Length: 1, 2", b"Content-Length: -1", b"Content-Length:", b"Content-Length: 1 2"],
)
def test_no_reading(fields):
    """Lengths that differ or are none."""
    with pytest.raises(BadAnswer):
        parsed(fields)


@pytest.mark.parametrize(
    "line", [b"", b"hello", b"HTTP/1.1 20", b"HTTP/1.1 2000 OK", b"HTTP/2 200", b"HTTP/1.1"]
)
def test_no_status_line(line):
    """What does not begin as HTTP/1 has no framing."""
    with pytest.raises(BadAnswer):
        parsed(b"", line)


def test_1_0_is_kept_only_if_it_says_so():
    """keep-alive in an answer of 1.0."""
    assert not parsed(b"Content-Length: 1", b"HTTP/1.0 200 OK").keep
    assert parsed(b"Content-Length: 1\r\nConnection: Keep-Alive", b"HTTP/1.0 200 OK").keep


def test_folding_and_odd_lines():
    """Folds are joined by one space, white space before a colon goes, what is no field passes."""
    head = parsed(b"A: b\r\n   c\r\n\td\r\nNo Field\r\nE : f\r\nContent-Length : 3")
    assert head.lines[1:] == [b"A: b c d", b"No Field", b"E: f", b"Content-Length: 3"]
    assert head.length == 3


def test_the_end_of_a_head_at_every_cut():
    """Found once its last byte is there, in CRLF and in bare LF, and not before."""
    for head in (b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n", b"HTTP/1.1 200 OK\nA: b\n\n"):
        for at in range(len(head)):
            assert find_answer_head(head[:at]) is None
        found = find_answer_head(head + b"\r\n\r\n")
        assert found is not None
        assert found[1] == len(head)
        assert parse_answer(head[: found[0]], bodyless=False).lines[1:] == [b"A: b"]


def test_towards_a_1_0_client():
    """No Transfer-Encoding, and a close."""
    head = parsed(b"Transfer-Encoding: chunked\r\nX: y")
    assert (
        head.encode(http11=False, close=True)
        == b"HTTP/1.1 200 OK\r\nX: y\r\nConnection: close\r\n\r\n"
    )
    assert b"chunked" in head.encode(http11=True, close=False)


def test_upgrade_stays_on_a_101_only():
    """The one hop-by-hop field that a 101 needs."""
    fields = b"Upgrade: websocket\r\nConnection: Upgrade"
    assert b"Upgrade: websocket" in parsed(fields, b"HTTP/1.1 101 S", upgrade=True).lines
    assert b"Upgrade: websocket" not in parsed(fields, b"HTTP/1.1 426 U").lines
