"""Requests' heads: what is accepted keeps its bytes, what is ambiguous is refused, however it is cut."""

from __future__ import annotations

import itertools

import pytest

from shadow.relay.fields import CHUNKED
from shadow.relay.head import BadRequest, RequestReader, parse_request

START = b"POST /v1/x?y HTTP/1.1\r\n"


def read(data: bytes, limit: int = 65536, cuts: tuple[int, ...] = ()):
    """The first head and what follows it, with the bytes cut at `cuts`."""
    reader = RequestReader(limit)
    edges = [0, *cuts, len(data)]
    for begin, end in itertools.pairwise(edges):
        if found := reader.feed(data[begin:end]):
            return found[0], found[1] + data[end:]
    return None


REQUEST = (
    START
    + b"Host: h\r\nX-A:  b \r\nConnection: close, X-C\r\nx-c: 1\r\nContent-Length: 3\r\n\r\nabcGET"
)


def test_what_is_read():
    """Every fact of a head, and the bytes that follow."""
    head, rest = read(REQUEST)
    assert (head.method, head.target, head.http11, head.length) == (b"POST", b"/v1/x?y", True, 3)
    assert head.lines == [START[:-2], b"Host: h", b"X-A:  b ", b"Content-Length: 3"]
    assert not head.keep
    assert rest == b"abcGET"


@pytest.mark.parametrize("lead", [b"", b"\r\n"])
def test_every_cut_reads_the_same(lead):
    """At every split point, and byte by byte, with the empty line that is forgiven and without."""
    data = lead + REQUEST
    expected = read(data)
    for at in range(1, len(data)):
        assert read(data, cuts=(at,)) == expected
    assert read(data, cuts=tuple(range(1, len(data)))) == expected


def test_one_empty_line_is_forgiven():
    """RFC 9112 §2.2; a second one is not."""
    assert read(b"\r\n" + REQUEST)
    with pytest.raises(BadRequest):
        read(b"\r\n\r\n" + REQUEST)


BAD = {
    "CL and TE": b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
    "CL twice": b"Content-Length: 1\r\nContent-Length: 1\r\n",
    "CL list": b"Content-Length: 1, 1\r\n",
    "CL +": b"Content-Length: +1\r\n",
    "CL hex": b"Content-Length: 0x1\r\n",
    "CL _": b"Content-Length: 1_0\r\n",
    "CL empty": b"Content-Length:\r\n",
    "CL tab": b"Content-Length: 1\t\r\n",
    "CL huge": b"Content-Length: 1234567890123456789\r\n",
    "TE gzip": b"Transfer-Encoding: gzip\r\n",
    "TE list": b"Transfer-Encoding: gzip, chunked\r\n",
    "TE twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    "TE odd": b"Transfer-Encoding: chunked;q=1\r\n",
    "folded": b"X: a\r\n\tb\r\n",
    "bare LF": b"X: a\nY: b\r\n",
    "bare CR": b"X: a\rY: b\r\n",
    "NUL": b"X: \x00\r\n",
    "DEL": b"X: \x7f\r\n",
    "space name": b"X y: a\r\n",
    "space colon": b"X : a\r\n",
    "no name": b": a\r\n",
    "no colon": b"abc\r\n",
    "two hosts": b"host: b\r\n",
}


@pytest.mark.parametrize("name", BAD)
def test_refused_however_it_is_cut(name):
    """400, at every split point."""
    data = START + b"Host: a\r\n" + BAD[name] + b"\r\n"
    for at in range(len(data)):
        with pytest.raises(BadRequest) as refused:
            read(data, cuts=(at,) if at else ())
        assert refused.value.status == 400


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"GET / HTTP/1.2", 505),
        (b"GET / HTTP/2.0", 505),
        (b"GET / http/1.1", 400),
        (b"GET /  HTTP/1.1", 400),
        (b"GET /a b HTTP/1.1", 400),
        (b"GET\t/ HTTP/1.1", 400),
        (b" GET / HTTP/1.1", 400),
        (b"G(T / HTTP/1.1", 400),
        (b"GET /", 400),
        (b"", 400),
    ],
)
def test_request_lines(line, status):
    """METHOD TARGET VERSION with one space each, and two versions."""
    with pytest.raises(BadRequest) as refused:
        parse_request(line + b"\r\nHost: h")
    assert refused.value.status == status


def test_1_0():
    """Host may be missing, there is no chunked, and the connection is not kept."""
    head = parse_request(b"GET /x HTTP/1.0\r\nConnection: keep-alive")
    assert not head.keep
    assert head.encode(b"engine:1") == b"GET /x HTTP/1.1\r\nHost: engine:1\r\n\r\n"
    with pytest.raises(BadRequest):
        parse_request(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked")


@pytest.mark.parametrize("limit", [100, 200])
@pytest.mark.parametrize("over", [0, 1])
def test_the_limit_is_the_same_however_it_is_cut(limit, over):
    """Fields of exactly the limit pass, one byte more is 431, at every split point."""
    fields = b"Host: h\r\nX: "
    fields += b"v" * (limit - len(fields) + over)
    data = START + fields + b"\r\n\r\n"
    for at in range(1, len(data)):
        if over:
            with pytest.raises(BadRequest) as refused:
                read(data, limit, (at,))
            assert refused.value.status == 431
        else:
            assert read(data, limit, (at,))


def test_a_long_request_line_is_414():
    """A line that has no end within the limit."""
    with pytest.raises(BadRequest) as refused:
        read(b"GET /" + b"a" * 300, 100)
    assert refused.value.status == 414


def test_an_endless_head_is_bounded():
    """Fields that never end are refused as soon as they are too long, not kept."""
    reader = RequestReader(1000)
    reader.feed(START)
    with pytest.raises(BadRequest) as refused:
        [reader.feed(b"X: 123456789\r\n") for _ in range(100)]
    assert refused.value.status == 431


@pytest.mark.parametrize(
    ("fields", "upgrade"),
    [
        (b"Connection: Upgrade\r\nUpgrade: websocket", True),
        (b"Connection: keep-alive, upgrade\r\nUpgrade: WebSocket", True),
        (b"Upgrade: websocket", False),
        (b"Connection: Upgrade\r\nUpgrade: h2c", False),
        (b"Connection: Upgrade\r\nUpgrade: websocket, h2c", False),
        (b"Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c", False),
        (b"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1", False),
    ],
)
def test_only_a_plain_websocket_is_an_upgrade(fields, upgrade):
    """Anything else loses its Upgrade field and is an ordinary request."""
    head = parse_request(b"GET / HTTP/1.1\r\nHost: h\r\n" + fields)
    assert head.upgrade == upgrade
    assert any(line.startswith(b"Upgrade:") for line in head.lines) == upgrade


@pytest.mark.parametrize(
    ("fields", "opted_out"),
    [
        (b"", False),
        (b"x-shadow: on\r\n", False),
        (b"x-shadow: Off\r\n", True),
        (b"x-shadow: on\r\nx-shadow: off\r\n", True),
        (b"x-shadow: on, off\r\n", True),
        (b"x-shadow: false\r\n", True),
        (b"x-shadow:\r\n", True),
        (b"Connection: x-shadow\r\nx-shadow: off\r\n", True),
    ],
)
def test_consent_fails_closed(fields, opted_out):
    """Whoever sends the field and does not plainly say `on` is not copied."""
    head = parse_request(START + b"Host: h\r\n" + fields + b"X-End: 1")
    assert head.opted_out is opted_out


def test_marks_and_consent():
    """x-shadow-arm marks a mirror's request, `x-shadow: off` opts out; both stay in the head."""
    head = parse_request(
        START + b"Host: h\r\nX-Shadow-Arm: a\r\nx-shadow: OFF\r\nTransfer-Encoding: chunked"
    )
    assert head.marked
    assert head.opted_out
    assert head.length == CHUNKED
    assert len(head.lines) == 5
