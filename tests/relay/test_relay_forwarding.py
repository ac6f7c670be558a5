"""What the primary is told of the client is what the configuration says, and by default what it sent."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relay.raw import answering, client, in_loop, proxy, upstream

from shadow.config.upstream import Primary
from shadow.relay.forwarding import Forwarding, needed
from shadow.relay.head import parse_request

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
FIELDS = (
    b"Host: api.example\r\nX-Forwarded-For: 10.0.0.7\r\nX-Forwarded-For: 10.0.0.8\r\n"
    b"X-Forwarded-Proto: https\r\nx-forwarded-host: a, b\r\nForwarded: for=10.0.0.7;proto=https\r\n"
    b"traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\ntracestate: a=b\r\n"
    b"X-Request-Id: 1\r\nX-Request-Id: 2\r\nX-Real-IP: 10.0.0.7\r\nVia: 1.1 gw\r\n"
)


async def told(fields: bytes, start: bytes = b"GET /p HTTP/1.1\r\n", **more) -> list[bytes]:
    """The lines that the primary got, without the request line."""
    async with (
        upstream(answering(OK)) as primary,
        proxy({"url": primary.url, **more}) as stage,
        client(stage.port) as user,
    ):
        await user.write(start + fields + b"\r\n")
        await user.until(b"\r\n\r\n")
        host = b"127.0.0.1:%d" % primary.port
        received = primary.connections[0].received.replace(host, b"ENGINE")
        return received.removesuffix(b"\r\n\r\n").split(b"\r\n")[1:]


@in_loop
async def test_by_default_nothing_is_added_or_changed():
    """Host, Forwarded, X-Forwarded-*, traceparent, X-Request-Id arrive as they were sent; where
    there are none, none are made."""
    assert await told(FIELDS) == FIELDS.split(b"\r\n")[:-1]
    assert await told(b"Host: h\r\n") == [b"Host: h"]


@in_loop
async def test_append_adds_this_hop():
    """The client's address ends both lists; what tells of the first hop is not told again."""
    assert await told(FIELDS, forwarded="append") == [
        line.replace(b"10.0.0.8", b"10.0.0.8, 127.0.0.1").replace(
            b"proto=https", b"proto=https, for=127.0.0.1"
        )
        if b"Proto" not in line
        else line
        for line in FIELDS.split(b"\r\n")[:-1]
    ]


@in_loop
async def test_append_is_the_first_hop():
    """Without a gateway before it."""
    assert await told(b"Host: h\r\nX: 1\r\n", forwarded="append") == [
        b"Host: h",
        b"X: 1",
        b"X-Forwarded-For: 127.0.0.1",
        b"X-Forwarded-Proto: http",
        b"X-Forwarded-Host: h",
    ]


@in_loop
async def test_the_primary_s_own_host():
    """`host: url`: in the place of the client's, which a configured hop still names."""
    assert await told(b"X: 1\r\nhost: h\r\nY: 2\r\n", host="url") == [
        b"X: 1",
        b"Host: ENGINE",
        b"Y: 2",
    ]
    both = await told(b"hOST:h:1\r\n", host="url", forwarded="append")
    assert both[0] == b"Host: ENGINE"
    assert both[-1] == b"X-Forwarded-Host: h:1"


@in_loop
async def test_a_1_0_client_without_a_host():
    """It gets the primary's, as ever."""
    assert (await told(b"X: 1\r\n", b"GET / HTTP/1.0\r\n", forwarded="append"))[:2] == [
        b"X: 1",
        b"Host: ENGINE",
    ]


@pytest.mark.parametrize("setting", [{}, {"forwarded": "append"}, {"host": "url"}])
def test_without_a_wish_nothing_runs(setting):
    """The relay asks for it only where the configuration does."""
    assert needed(Primary(url="http://e:1", **setting)) is bool(setting)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [b"X-Forwarded-For: 1.1.1.1", b"forwarded: for=x", b"X: a", b"X-FORWARDED-PROTO: z"]
        ),
        max_size=6,
    ),
    st.sampled_from(["10.0.0.1", "2001:db8::1", "unknown"]),
)
def test_all_else_stays_where_it_is(fields, peer):
    """Whatever stands in the head: other lines keep their bytes and order, and it is one head."""
    head = parse_request(b"\r\n".join([b"POST /x HTTP/1.1", b"Host: h", *fields]))
    forwarding = Forwarding(Primary(url="http://e:1", forwarded="append"), b"e:1")
    again = parse_request(forwarding.encode(head, peer).removesuffix(b"\r\n\r\n"))
    assert again.target == head.target
    for old, new in zip(head.lines, again.lines, strict=False):
        assert new == old or (b"orwarded" in old.lower() and new.startswith(old + b", "))
    assert sum(line.lower().count(b"x-forwarded-for") for line in again.lines) >= 1
    whole = b"\r\n".join(again.lines)
    assert whole.count(peer.encode()) >= 1
    if ":" in peer and b"forwarded: for=x" in fields:
        assert b', for="[2001:db8::1]"' in whole
