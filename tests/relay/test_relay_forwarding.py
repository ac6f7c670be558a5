"""What the primary is told of the client is what the configuration says, and by default what it sent."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
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


@pytest.mark.parametrize(
    "setting",
    [
        {},
        {"forwarded": "append"},
        {"host": "url"},
        {"request_id": "make"},
        {"request_id": "remove"},
        {"traceparent": "make"},
        {"traceparent": "remove"},
    ],
)
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


TRACED = rb"traceparent: 00-([0-9a-f]{32})-([0-9a-f]{16})-01"
NAMED = rb"X-Request-Id: ([0-9a-f]{32})"
POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n"
MADE = {"request_id": "make", "traceparent": "make"}


def identity(head: bytes) -> tuple[bytes, bytes]:
    """(request id, trace id) of what the primary got, each of which is there once."""
    (named,), ((trace, span),) = re.findall(NAMED, head), re.findall(TRACED, head)
    assert trace.strip(b"0")
    assert span.strip(b"0")
    assert head.lower().count(b"x-request-id") == head.lower().count(b"traceparent") == 1
    return named, trace


@pytest.mark.parametrize(
    "fields",
    [
        b"x-request-id: mine\r\n",
        b"X-REQUEST-ID:\r\n",
        b"X-Request-Id: 1\r\nA: b\r\nX-Request-Id: 2\r\n",
    ],
)
@in_loop
async def test_an_id_that_is_there(fields):
    """It stays as it is, empty and repeated ones too; `remove` takes all of them, and no more."""
    sent = (b"Host: h\r\n" + fields).split(b"\r\n")[:-1]
    assert await told(b"Host: h\r\n" + fields, request_id="make") == sent
    left = [line for line in sent if not line.lower().startswith(b"x-request-id")]
    assert await told(b"Host: h\r\n" + fields, request_id="remove") == left


@pytest.mark.parametrize(
    "fields",
    [
        b"TraceParent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00\r\n",
        b"traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\ntracestate: a=b\r\n",
        b"traceparent: 00-0-0-00\r\ntracestate: a=b\r\n",
        b"traceparent: x\r\nA: b\r\ntraceparent: y\r\n",
    ],
)
@in_loop
async def test_a_trace_that_is_there(fields):
    """A proxy that takes no part passes both fields on as they are, malformed and repeated ones
    too; `remove` takes all of both."""
    sent = (b"Host: h\r\n" + fields).split(b"\r\n")[:-1]
    assert await told(b"Host: h\r\n" + fields, traceparent="make") == sent
    left = [line for line in sent if not line.lower().startswith(b"trace")]
    assert await told(b"Host: h\r\n" + fields, traceparent="remove") == left


@in_loop
async def test_remove_reads_underscores_as_servers_do():
    """What an engine would take for the field is the field."""
    fields = b"Host: h\r\nx_request_id: 1\r\nx-request_Id: 2\r\nX: 3\r\n"
    assert await told(fields, request_id="remove") == [b"Host: h", b"X: 3"]


@in_loop
async def test_what_is_absent_is_made():
    """One of each, at the end; a tracestate without its traceparent is of no trace."""
    first, second = [
        await told(b"Host: h\r\ntracestate: a=b\r\nX: 1\r\n", **MADE) for _ in range(2)
    ]
    assert first[:2] == second[:2] == [b"Host: h", b"X: 1"]
    one, other = identity(b"\r\n".join(first)), identity(b"\r\n".join(second))
    assert one[0] == one[1] != other[0]
    named = await told(b"Host: h\r\ntracestate: a=b\r\n", request_id="make")
    assert named[:2] == [b"Host: h", b"tracestate: a=b"]
    assert re.fullmatch(NAMED, named[2])


@in_loop
async def test_what_connection_names_is_this_hop_s():
    """It is gone before: the next hop gets one of its own."""
    got = await told(b"Host: h\r\nConnection: x-request-id\r\nX-Request-Id: hop\r\n", **MADE)
    assert got[0] == b"Host: h"
    identity(b"\r\n".join(got))


@in_loop
async def test_the_records_know_the_request_by_it():
    """A mirrored request's id, and its trace's, is the pair_id of its records; pipelined ones have
    each their own; the candidate gets none of it."""
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as arm,
        proxy({"url": primary.url, **MADE}, {"a": arm.url}) as stage,
        client(stage.port) as user,
    ):
        await user.write((POST + b"\r\n{}") * 3)
        await user.exactly(3 * len(OK))
        exchanges = await stage.publisher.wait_for(6)
        received = b"".join(connection.received for connection in primary.connections)
        copied = b"".join(connection.received for connection in arm.connections)
    heads = [identity(head) for head in received.split(b"\r\n\r\n{}")[:-1]]
    assert len(set(heads)) == 3
    assert {named.decode() for named, _ in heads} == {e.pair_id for e in exchanges}
    assert all(named == trace for named, trace in heads)
    assert b"POST" in copied
    assert not re.search(rb"x-request-id|trace", copied, re.IGNORECASE)


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"HEAD /x HTTP/1.1\r\nHost: h\r\n", b""),
        (b"GET /x HTTP/1.0\r\n", b""),
        (POST + b"X-Shadow: off\r\n", b"{}"),
        (
            b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n",
            b"1\r\n{\r\n1;e=1\r\n}\r\n0\r\nX-Request-Id: trailer\r\n\r\n",
        ),
    ],
)
@in_loop
async def test_whatever_the_request_is(head, body):
    """Mirrored or not, without a body or in chunks: the head gains two lines, the body nothing."""
    answer = b"HTTP/1.1 204 No Content\r\n\r\n"

    async def script(connection):
        await connection.until(b"\r\n\r\n" + body)
        await connection.write(answer)
        await connection.rest()

    async with (
        upstream(script) as primary,
        proxy({"url": primary.url, **MADE}) as stage,
        client(stage.port) as user,
    ):
        await user.write(head + b"\r\n" + body[:4])
        await user.write(body[4:])
        await user.exactly(len(answer))
        received = primary.connections[0].received
    gained, _, rest = received.partition(b"\r\n\r\n")
    assert rest == body
    identity(gained)


@in_loop
async def test_a_retry_is_the_same_request():
    """Sent once more over a stale connection, it has the id that its records have."""
    request = POST + b"\r\n{}"

    async def script(connection):
        await connection.request()
        await connection.write(OK)
        if connection is primary.connections[0]:
            await connection.request()  # and closes without a byte
        else:
            await connection.rest()

    async with (
        upstream(script) as primary,
        upstream(answering(OK)) as arm,
        proxy({"url": primary.url, **MADE}, {"a": arm.url}) as stage,
        client(stage.port) as user,
    ):
        await user.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await user.exactly(len(OK))
        await user.write(request)
        await user.exactly(len(OK))
        assert stage.totals.stale_retries == 1
        exchanges = await stage.publisher.wait_for(2)
        sent = b"POST" + primary.connections[0].received.partition(b"POST")[2]
        assert primary.connections[1].received == sent
    assert {e.pair_id for e in exchanges} == {identity(sent)[0].decode()}


def test_no_id_is_all_zero():
    """The one value that W3C Trace Context forbids, should a pair ever have it."""
    forwarding = Forwarding(Primary(url="http://e:1", **MADE), b"e:1")
    head = parse_request(b"GET / HTTP/1.1\r\nHost: h")
    assert identity(forwarding.encode(head, "", "0" * 32))[1] != b"0" * 32
    assert identity(forwarding.encode(head, "", "0" * 31 + "1")) == (b"0" * 31 + b"1",) * 2


@pytest.mark.parametrize("key", ["request_id", "traceparent"])
def test_what_a_key_may_say(key):
    """Three words; tapped, where a request is built and not passed, none."""
    with pytest.raises(ValidationError):
        Primary(url="http://e:1", **{key: "always"})
    assert Primary(url="http://e:1", **{key: "make"}).misplaced("tap").startswith(f"{key}: ")
    assert not Primary(url="http://e:1", **{key: "pass"}).misplaced("tap")
    assert not Primary(url="http://e:1", **{key: "make"}).misplaced("inline")
