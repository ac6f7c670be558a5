"""A capture: bounded bytes, marks that go on, offsets that mean what the wire's schema says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shadow.capture.capture import Capture
from shadow.capture.request import Request
from shadow.capture.side import Origin, Side
from shadow.config.upstream import HeaderChanges
from shadow.exchange import decode, encode
from shadow.mirror.headers import ArmHeaders
from shadow.relay.answer import parse_answer
from shadow.relay.head import parse_request

HEAD = parse_request(
    b"POST /v1/completions?key=secret HTTP/1.1\r\nHost: h\r\nCookie: c\r\nUser-Agent: ua"
)


def capture(limit: int = 100, tail: int = 20, primary: bool = True) -> Capture:  # noqa: FBT001, FBT002
    headers = None if primary else ArmHeaders("fp8", b"a", b"", HeaderChanges())
    side = Side(
        Origin("e", "h", "w", "b"),
        "primary" if primary else "fp8",
        "candidate",
        4.0,
        headers,
        limit,
        tail,
    )
    request = Request(HEAD, "p" * 32, 1_000, 7, b'{"model":"m","n":1}')
    return Capture(side, request, 2_000, 5_000, 3)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.lists(st.binary(min_size=0, max_size=60), max_size=3), max_size=12),
    st.integers(0, 80),
    st.integers(0, 40),
)
def test_the_head_and_the_tail_are_kept(arrivals, limit, tail):
    """Whatever arrives, in whatever pieces: the first `limit` bytes, the last `tail`, the gap."""
    kept = capture(limit, tail)
    whole = b"".join(piece for pieces in arrivals for piece in pieces)
    for n, pieces in enumerate(arrivals):
        kept.append(10_000 + n, pieces)
    kept.end(20_000, "complete")
    exchange = decode(kept.message(1).value)
    gap = max(len(whole) - limit - tail, 0)
    assert exchange.truncated_bytes == gap
    assert exchange.captured_bytes == len(exchange.body) == len(whole) - gap
    if gap:
        assert exchange.body == whole[:limit] + whole[len(whole) - tail :]
        assert exchange.tail_bytes == tail
    else:
        assert exchange.body == whole
        assert exchange.tail_bytes == 0
    ends = [end for _, end in exchange.marks]
    assert ends == sorted(set(ends))
    assert (ends[-1] if ends else 0) == len(whole)
    assert len(kept._tail or b"") <= 2 * tail + 60


def test_offsets():
    """connect, sent, first byte and end count from the start; marks from the sent request."""
    kept = capture()
    kept.connected_ns, kept.sent_ns, kept.first_byte_ns = 5_100, 5_200, 5_900
    kept.append(5_950, [b"abc"])
    kept.append(6_000, [b"d", b"e"])
    kept.end(6_000, "complete")
    exchange = decode(kept.message(9).value)
    assert (exchange.connect_ns, exchange.sent_ns, exchange.first_byte_ns, exchange.end_ns) == (
        100,
        200,
        900,
        1000,
    )
    assert exchange.marks == [(750, 3), (800, 5)]
    assert exchange.marks[-1][0] == exchange.end_ns - exchange.sent_ns
    assert (exchange.sequence, exchange.arrived_at, exchange.started_at) == (9, 1_000, 2_000)
    assert (exchange.in_flight, exchange.weight) == (3, 4.0)
    assert decode(encode(exchange)) == exchange


def test_an_answer_that_came_before_the_upload_s_end():
    """Marks then count from its first byte."""
    kept = capture()
    kept.first_byte_ns, kept.sent_ns = 5_100, 5_500
    kept.append(5_150, [b"abc"])
    kept.end(5_600, "complete")
    assert decode(kept.message(1).value).marks == [(50, 3)]
    assert decode(kept.message(1).value).sent_ns == 100


def test_what_did_not_happen_is_null():
    """An arm that could not be connected to has no stamps, status or marks, but a reason."""
    kept = capture(primary=False)
    kept.end(9_000, "connect_failed", "refused")
    exchange = decode(kept.message(1).value)
    assert (exchange.sent_ns, exchange.first_byte_ns, exchange.status, exchange.marks) == (
        None,
        None,
        None,
        [],
    )
    assert (exchange.end_ns, exchange.transport, exchange.error) == (
        4_000,
        "connect_failed",
        "refused",
    )


def test_the_first_word_counts():
    """An end is told once; later ones change nothing."""
    kept = capture()
    kept.end(9_000, "timed_out", "late")
    kept.end(9_500, "complete")
    assert decode(kept.message(1).value).transport == "timed_out"


@pytest.mark.parametrize("primary", [True, False])
def test_what_is_recorded(primary):
    """Body and fields of the request on the primary's record only; no query, no cookie, no key."""
    kept = capture(primary=primary)
    kept.head = parse_answer(b"HTTP/1.1 201 Made\r\nSet-Cookie: s\r\nServer: x", bodyless=False)
    kept.end(9_000, "complete")
    exchange = decode(kept.message(1).value)
    assert exchange.path == "/v1/completions"
    assert exchange.status == 201
    assert exchange.headers == [("Server", "x")]
    assert exchange.request == (b'{"model":"m","n":1}' if primary else None)
    assert exchange.request_headers == ([("User-Agent", "ua")] if primary else [])
    assert exchange.request_changes == ([] if primary else ["header:cookie", "query:key"])
    assert exchange.request_facts.model == "m"


def test_its_size_counts_what_it_holds():
    """Kept bytes, marks, and the request's body with the last that the loop lets go of."""
    kept = capture()
    other = Capture(kept._side, kept.request, 1, 1, 0)
    before = kept.size_bytes
    kept.append(1, [b"x" * 90])
    assert kept.size_bytes == before + 90 + 16
    kept.leave()
    assert kept.size_bytes == before + 90 + 16
    other.leave()
    assert other.size_bytes == before + len(kept.request.body)


def test_a_restart_forgets_the_first_try():
    """After a stale connection nothing of it is left."""
    kept = capture()
    kept.sent_ns = kept.first_byte_ns = 6_000
    kept.append(6_001, [b"x"])
    kept.end(6_002, "reset", "stale")
    kept.restart()
    kept.end(7_000, "complete")
    exchange = decode(kept.message(1).value)
    assert (exchange.transport, exchange.error, exchange.body, exchange.marks) == (
        "complete",
        None,
        b"",
        [],
    )
