"""What a client may take its time for is bounded, and nothing that the primary would have taken is."""

from __future__ import annotations

import asyncio
import time

import pytest
from relay.raw import answering, client, in_loop, proxy, until, upstream
from relay.test_relay_hostile import HELD_S, watched

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n"
GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"


@pytest.mark.parametrize("before", [0, 1], ids=["the first request", "after a request"])
@in_loop
async def test_a_head_that_does_not_end_is_408(before):
    """A part of a head and no more: 408 and a close after `head_timeout`, a drip delays it not."""
    async with (
        upstream(answering(OK)) as primary,
        proxy(primary.url, limits={"head_timeout": "300ms"}) as stage,
        client(stage.port) as user,
    ):
        for _ in range(before):
            await user.write(GET)
            assert await user.exactly(len(OK)) == OK
        begun = time.monotonic()
        await user.write(b"GET / HTTP/1.1\r\nX: ")

        async def drip():
            while True:
                await user.write(b"a")
                await asyncio.sleep(0.05)

        dripping = asyncio.ensure_future(drip())
        answered = await user.until(b"\r\n\r\n")
        dripping.cancel()
        assert answered.startswith(b"HTTP/1.1 408 ")
        assert b"\r\nConnection: close\r\n" in answered
        assert time.monotonic() - begun >= 0.3
        assert stage.totals.refused == 1
        assert stage.totals.requests == before


@in_loop
async def test_a_head_that_ends_in_time_waits_for_its_answer():
    """The head's time-out is the head's: neither its answer nor its body is bounded by it."""
    gate = asyncio.Event()

    async def script(connection):
        await connection.request()
        await gate.wait()
        await connection.write(OK)

    async with (
        upstream(script) as primary,
        proxy(primary.url, limits={"head_timeout": "100ms", "client_idle": "100ms"}) as stage,
        client(stage.port) as user,
    ):
        await user.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\na")
        await asyncio.sleep(0.4)
        await user.write(b"b")
        await asyncio.sleep(0.4)
        gate.set()
        assert await user.exactly(len(OK)) == OK


@pytest.mark.parametrize("first", [b"", GET, b"\r\n"], ids=["new", "kept", "an empty line"])
@in_loop
async def test_an_idle_connection_ends(first):
    """After `client_idle`, with FIN and no word: what says 408 there answers the next request."""
    async with (
        upstream(answering(OK)) as primary,
        proxy(primary.url, limits={"client_idle": "300ms", "head_timeout": "100ms"}) as stage,
        client(stage.port) as user,
    ):
        begun = time.monotonic()
        await user.write(first)
        assert await user.rest() == (OK if first == GET else b"")
        assert time.monotonic() - begun >= 0.2


@in_loop
async def test_idle_connections_are_kept_longer_than_any_gateway_keeps_them():
    """The default lies beyond Envoy's hour: the gateway closes first."""
    async with upstream(answering(OK)) as primary, proxy(primary.url) as stage:
        limits = stage.proxy.config.limits
        assert limits.client_idle > 3600
        assert limits.head_timeout == 60


@pytest.mark.parametrize(
    ("head", "parts"),
    [
        (b"Content-Length: 4\r\n\r\n", [b"ab", b"cd"]),
        (b"Transfer-Encoding: chunked\r\n\r\n", [b"2\r\nab\r\n", b"2\r\ncd\r\n0\r\n\r\n"]),
    ],
    ids=["length", "chunked"],
)
@in_loop
async def test_a_stalled_upload_is_the_mirror_s_to_leave(head, parts):
    """After `upload_wait` the mirror lets go, counted; the primary gets all of it, whenever."""
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as candidate,
        proxy(primary.url, {"fp8": candidate.url}, limits={"upload_wait": "200ms"}) as stage,
        client(stage.port) as user,
    ):
        await user.write(CHAT + head + parts[0])
        dropped = ("fp8", "dropped", "request_incomplete")
        await until(lambda: stage.ledger.counts.get(dropped))
        assert stage.proxy.mirror.held.open_bytes == 0
        await user.write(parts[1])
        assert await user.exactly(len(OK)) == OK
        assert primary.connections[0].received.endswith(b"".join(parts))
        assert not candidate.connections
        assert stage.ledger.balanced("fp8")
        assert stage.ledger.balanced("primary")


@in_loop
async def test_a_crumbled_upload_holds_nobody_and_passes_whole():
    """200,000 chunks of one byte, as fast as they go: in slices, and every byte arrives; what was
    sent behind it has its own turn."""
    body = b"1\r\nx\r\n" * 200_000 + b"0\r\n\r\n"
    head = CHAT + b"Transfer-Encoding: chunked\r\n\r\n"
    async with (
        upstream(answering(OK)) as primary,
        proxy(primary.url, limits={"request_bytes": "1KiB"}) as stage,
        client(stage.port) as user,
    ):
        async with watched() as longest:
            await user.write(head + body + GET)
            assert await user.exactly(2 * len(OK)) == OK + OK
            slow = longest()
        assert primary.connections[0].received == head + body + GET
        assert slow < HELD_S


@in_loop
async def test_a_crumbled_upload_s_breach_is_found_in_a_later_slice():
    """400 after all that was good went on; what follows the breach is not passed."""
    good = b"1\r\nx\r\n" * 2000
    async with (
        upstream(answering(OK)) as primary,
        proxy(primary.url) as stage,
        client(stage.port) as user,
    ):
        await user.write(CHAT + b"Transfer-Encoding: chunked\r\n\r\n" + good + b"y\r\n\r\n" + GET)
        assert (await user.rest()).startswith(b"HTTP/1.1 400 ")
        received = primary.connections[0].received if primary.connections else b""
        assert b"y\r\n" not in received
        assert stage.totals.requests == 1


@in_loop
async def test_a_client_that_leaves_inside_its_crumbs():
    """Nobody goes on with what it left behind; the primary sees it go."""
    async with (
        upstream(answering(OK)) as primary,
        proxy(primary.url) as stage,
    ):
        async with client(stage.port) as user:
            await user.write(CHAT + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 40_000)
            await until(lambda: primary.connections)
        await until(lambda: stage.totals.client_disconnected == 1)
        await until(lambda: all(task.done() for task in primary.tasks))
