"""How messages and connections end: what the upstream does the client sees, and the other way."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress

import pytest
from relay.raw import answering, black_hole, client, in_loop, proxy, until, upstream

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"

STARTS = {
    "before the first byte": b"",
    "inside the head": b"HTTP/1.1 200 OK\r\nConte",
    "inside a length": b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\npart",
    "inside chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
    "without a length": b"HTTP/1.1 200 OK\r\n\r\npart",
}


def shown(start: bytes) -> bytes:
    """What a client sees of a started answer."""
    if b"\r\n\r\n" not in start:
        return b""
    unframed = b"Content-Length" not in start and b"chunked" not in start
    return start.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n", 1) if unframed else start


@pytest.mark.parametrize("name", STARTS)
@in_loop
async def test_a_reset_reaches_the_client_as_a_reset(name):
    """RST from the upstream is RST to the client, after what had come; never a clean end."""
    gate = asyncio.Event()

    async def script(connection):
        await connection.request()
        await connection.write(STARTS[name])
        await gate.wait()
        connection.reset()

    async with upstream(script) as primary, proxy(primary.url) as stage, client(stage.port) as user:
        await user.write(GET)
        expected = shown(STARTS[name])
        if expected:
            assert await user.exactly(len(expected)) == expected
        gate.set()
        with pytest.raises(ConnectionResetError):
            await user.rest()
        assert stage.totals.upstream_lost == 1


@in_loop
async def test_what_came_with_the_reset_is_not_lost():
    """Bytes that arrive together with the reset still reach the client before it."""

    async def script(connection):
        await connection.request()
        connection.writer.write(STARTS["inside a length"])
        await asyncio.sleep(0.02)  # the kernel drops unsent bytes at a reset
        connection.reset()

    async with upstream(script) as primary, proxy(primary.url) as stage, client(stage.port) as user:
        await user.write(GET)
        with pytest.raises(ConnectionResetError):
            await user.rest()
        assert user.received == STARTS["inside a length"]


@pytest.mark.parametrize("name", STARTS)
@in_loop
async def test_a_cut_answer_ends_as_it_was_cut(name):
    """FIN inside a message is FIN to the client, with the bytes that had come and nothing added."""

    async def script(connection):
        await connection.request()
        await connection.write(STARTS[name])

    async with upstream(script) as primary, proxy(primary.url) as stage, client(stage.port) as user:
        await user.write(GET)
        assert await user.rest() == shown(STARTS[name])


@in_loop
async def test_cut_chunks_are_a_reset_to_a_1_0_client():
    """Its body is what the connection's end ends: a FIN would make a cut answer look whole."""

    async def script(connection):
        await connection.request()
        await connection.write(STARTS["inside chunks"])

    async with upstream(script) as primary, proxy(primary.url) as stage, client(stage.port) as user:
        await user.write(b"GET /p HTTP/1.0\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            await user.rest()


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("how", ["FIN", "RST"])
@in_loop
async def test_a_client_s_end_reaches_the_primary_at_once(how, started):
    """FIN or RST of the client ends the upstream's connection, before the first byte too."""
    left = asyncio.Event()

    async def script(connection):
        await connection.request()
        if started:
            await connection.write(STARTS["inside chunks"])
        try:
            assert await connection.some() == b""
        finally:
            left.set()

    async with upstream(script) as primary, proxy(primary.url) as stage, client(stage.port) as user:
        await user.write(POST)
        await until(lambda: primary.connections and b"{}" in primary.connections[0].received)
        if started:
            await user.exactly(len(STARTS["inside chunks"]))
        begun = time.monotonic()
        if how == "FIN":
            user.writer.write_eof()
        else:
            user.reset()
        await asyncio.wait_for(left.wait(), 2)
        assert time.monotonic() - begun < 0.5
        await until(lambda: stage.totals.open_connections == 0)
        assert stage.totals.client_disconnected == 1


@pytest.mark.parametrize("how", ["FIN", "RST"])
@in_loop
async def test_a_client_that_leaves_while_the_primary_is_connected_to(how):
    """The primary's SYN is never answered, and the client does not wait: within 100 ms its stream is
    gone and the attempt is cancelled, long before the connect timeout; it is a disconnect in the
    metrics and in the record, not the primary's failure, and the arms got nothing."""
    async with (
        black_hole() as dark,
        upstream(answering(OK)) as candidate,
        proxy({"url": dark.url, "connect_timeout": "10s"}, {"fp8": candidate.url}) as stage,
    ):
        pool, took = stage.proxy.relay.pool, []
        for _ in range(3):  # one of them is not held up by the machine
            async with client(stage.port) as user:
                await user.write(POST)
                await until(lambda: pool._connecting)
                (attempt,) = pool._connecting.values()
                await asyncio.sleep(0.02)
                assert not attempt.done()
                assert stage.totals.open_streams == 1
                left = time.monotonic()
                if how == "FIN":
                    user.writer.write_eof()
                else:
                    user.reset()
                await until(attempt.done)
                assert attempt.cancelled()
                await until(
                    lambda: not stage.totals.open_streams and not stage.totals.open_connections
                )
                took.append(time.monotonic() - left)
        assert min(took) < 0.1
        assert not pool._connecting
        assert stage.totals.client_disconnected == 3
        assert stage.totals.connect_failed == stage.totals.upstream_lost == 0
        exchanges = await stage.publisher.wait_for(3)
        assert {(e.arm, e.transport, e.status) for e in exchanges} == {
            ("primary", "client_disconnected", None)
        }
        assert stage.ledger.counts["fp8", "dropped", "request_incomplete"] == 3
        assert stage.ledger.counts["primary", "unsent", ""] == 3
        assert ("primary", "connect_failed", "") not in stage.ledger.counts
        assert all(map(stage.ledger.balanced, ("primary", "fp8")))
        assert not candidate.connections


@pytest.mark.parametrize("how", ["FIN", "RST"])
@in_loop
async def test_a_client_that_leaves_while_it_is_not_read(how):
    """Of an upload, 64 KiB wait for the primary's connection, and the client is read no further: it
    is seen to leave all the same, long before the connect timeout."""
    async with (
        black_hole() as dark,
        proxy({"url": dark.url, "connect_timeout": "10s"}) as stage,
        client(stage.port) as user,
    ):
        size = 100_000
        fields = b"Host: h\r\nContent-Length: %d\r\n\r\n" % size
        await user.write(b"POST /v1/x HTTP/1.1\r\n" + fields + bytes(size))
        await until(lambda: any(seen._paused for seen in stage.proxy.relay.clients))
        await asyncio.sleep(0.25)
        assert stage.totals.open_streams == 1
        begun = time.monotonic()
        if how == "FIN":
            user.writer.write_eof()
        else:
            user.reset()
        await until(lambda: not stage.totals.open_streams and not stage.totals.open_connections)
        assert time.monotonic() - begun < 1
        assert stage.totals.client_disconnected == 1
        assert stage.totals.connect_failed == 0
        assert not stage.proxy.relay.pool._connecting


@in_loop
async def test_connections_are_reused():
    """Ten requests of two clients in turn use one upstream connection."""
    async with upstream(answering(OK)) as primary, proxy(primary.url) as stage:
        for _ in range(2):
            async with client(stage.port) as user:
                for _ in range(5):
                    await user.write(GET)
                    assert await user.exactly(len(OK)) == OK
        assert len(primary.connections) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        OK + b"x",
    ],
    ids=["close", "1.0", "a byte left over"],
)
@in_loop
async def test_an_unfit_upstream_connection_is_not_reused(answer):
    """Somebody said close, or something is left in the buffer: the next request gets a new one,
    and the client, who was promised nothing else, keeps its own."""
    async with (
        upstream(answering(answer)) as primary,
        proxy(primary.url) as stage,
        client(stage.port) as user,
    ):
        for _ in range(2):
            await user.write(GET)
            assert (await user.request())[1] == b"ok"
        assert len(primary.connections) == 2


@in_loop
async def test_a_client_that_says_close_is_closed():
    """`Connection: close` ends the client's connection, not the upstream's."""
    async with upstream(answering(OK)) as primary, proxy(primary.url) as stage:
        for _ in range(2):
            async with client(stage.port) as user:
                await user.write(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
                assert b"\r\nConnection: close\r\n" in await user.rest()
        assert len(primary.connections) == 1


@in_loop
async def test_a_byte_on_an_idle_upstream_closes_it():
    """What nobody asked for is never the beginning of the next answer."""

    async def script(connection):
        await connection.request()
        await connection.write(OK)
        await asyncio.sleep(0.02)
        await connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
        await connection.rest()

    async with upstream(script) as primary, proxy(primary.url) as stage, client(stage.port) as user:
        await user.write(GET)
        await user.exactly(len(OK))
        await until(lambda: not stage.proxy.relay.pool._idle)
        await user.write(GET)
        assert await user.exactly(len(OK)) == OK
        assert len(primary.connections) == 2


@in_loop
async def test_idle_connections_end_after_their_time():
    """idle_timeout closes them, so that the upstream does not close them first."""
    async with (
        upstream(answering(OK)) as primary,
        proxy({"url": primary.url, "idle_timeout": "50ms"}) as stage,
        client(stage.port) as user,
    ):
        await user.write(GET)
        await user.exactly(len(OK))
        await until(lambda: not stage.proxy.relay.pool._idle)
        await asyncio.wait_for(asyncio.gather(*primary.tasks), 2)  # it saw the end


EARLY = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"


ONE_KIB = b"u" * 1024


async def early(more_kib: int, *, finish: bool):
    """An answer comes after 1 KiB of an upload, then the client sends more, KiB by KiB, which is its end
    or not; then, on the same connection, a GET. (what the client got after the first answer, how many
    connections the primary saw, how many KiB it got)"""
    length = 1024 * (1 + more_kib) if finish else 10_000_000

    async def script(connection):
        if len(primary.connections) == 1:
            await connection.until(b"\r\n\r\n")
            await connection.exactly(1024)
            await connection.write(EARLY)
            with suppress(EOFError):
                await connection.exactly(length - 1024)
        while True:
            await connection.request()
            await connection.write(OK)

    async with upstream(script) as primary, proxy(primary.url) as stage, client(stage.port) as user:
        await user.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % length)
        await user.write(ONE_KIB)
        assert await user.exactly(len(EARLY)) == EARLY
        passage = next(iter(stage.proxy.relay.clients)).passage
        for n in range(1, more_kib + 1):
            await user.write(ONE_KIB)
            await until(lambda n=n: passage._late_bytes >= n * 1024 or passage.connection is None)
        if finish:
            await until(lambda: not stage.totals.open_streams)
        await user.write(GET)
        got = await (user.exactly(len(OK)) if finish and more_kib <= 64 else user.rest())
        await until(lambda: not stage.totals.open_streams)
        body = primary.connections[0].received.partition(b"\r\n\r\n")[2]
        return got, len(primary.connections), body.count(ONE_KIB)


@pytest.mark.parametrize("more_kib", [1, 60])
@in_loop
async def test_an_early_answer_keeps_both_if_the_upload_ends_soon(more_kib):
    """The upload's end within 64 KiB of the answer: both connections serve the next request."""
    assert await early(more_kib, finish=True) == (OK, 1, 1 + more_kib)


@pytest.mark.parametrize("finish", [True, False], ids=["to 70 KiB", "on and on"])
@in_loop
async def test_an_early_answer_ends_both_if_the_upload_goes_on(finish):
    """64 KiB are passed; a KiB more, and both are closed, whatever else comes: a GET has no answer."""
    got, connections, kib = await early(70, finish=finish)
    assert (got, connections) == (b"", 1)
    assert 65 <= kib <= 66  # one of them had come before the answer


@in_loop
async def test_a_websocket_passes():
    """Upgrade passes for websocket; the client's bytes wait for the 101; then both ways, as sent."""

    async def script(connection):
        head = await connection.until(b"\r\n\r\n")
        assert b"Upgrade: websocket\r\n" in head
        assert b"Connection: Upgrade\r\n" in head
        assert connection.unread == b""
        await connection.write(
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nConnection: upgrade\r\n\r\nhi"
        )
        assert await connection.exactly(5) == b"early"
        await connection.write(b"echo")
        assert await connection.exactly(3) == b"bye"

    async with upstream(script) as primary, proxy(primary.url) as stage, client(stage.port) as user:
        await user.write(
            b"GET /v1/realtime HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\r\nearly"
        )
        head = await user.until(b"\r\n\r\n")
        assert b"upgrade: WebSocket\r\n" in head
        assert b"Connection: Upgrade\r\n" in head
        assert await user.exactly(6) == b"hiecho"
        await user.write(b"bye")
        assert await user.rest() == b""
        assert stage.totals.upgrades == 1


@in_loop
async def test_a_refused_websocket_is_an_ordinary_answer():
    """Without a 101 the answer passes and what the client sent early is its next request."""
    async with (
        upstream(answering(OK)) as primary,
        proxy(primary.url) as stage,
        client(stage.port) as user,
    ):
        await user.write(
            b"GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
            + GET
        )
        assert await user.exactly(2 * len(OK)) == OK + OK
        assert primary.connections[0].received.endswith(GET)


@in_loop
async def test_h2c_is_stripped():
    """No upgrade but websocket passes; HTTP2-Settings goes with it."""
    async with (
        upstream(answering(OK)) as primary,
        proxy(primary.url) as stage,
        client(stage.port) as user,
    ):
        await user.write(
            b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"
        )
        assert await user.exactly(len(OK)) == OK
        assert primary.connections[0].received == GET


class Stale:
    """Answers once; at the second request on a connection reads it, waits, says `last`, and ends."""

    def __init__(self, wait: float, how: str = "FIN", last: bytes = b"") -> None:
        self.wait, self.how, self.last = wait, how, last
        self.requests = 0

    async def __call__(self, connection):
        await connection.request()
        self.requests += 1
        await connection.write(OK)
        await connection.request()
        self.requests += 1
        await asyncio.sleep(self.wait)
        if self.last:
            await connection.write(self.last)
        if self.how == "RST":
            connection.reset()


async def stale(request: bytes, wait: float = 0.0, how: str = "FIN", last: bytes = b"", **settings):
    """(what the client got after a first good request, how many requests the upstreams saw,
    retries)."""
    script = Stale(wait, how, last)
    async with (
        upstream(script) as primary,
        proxy(primary.url, **settings) as stage,
        client(stage.port) as user,
    ):
        await user.write(GET)
        await user.exactly(len(OK))
        await user.write(request)
        try:
            got = await user.exactly(len(OK))
        except (EOFError, ConnectionResetError):
            got = b""
        return got, script.requests, stage.totals.stale_retries


@pytest.mark.parametrize("how", ["FIN", "RST"])
@in_loop
async def test_a_stale_connection_is_tried_once_more(how):
    """A reused socket that closes at once without a byte: the POST goes out once more, on a new one."""
    assert await stale(POST, how=how) == (OK, 3, 1)


@pytest.mark.parametrize("last", [b"H", b"HTTP/1.1 200 OK\r\nConte", b"\r\n"])
@in_loop
async def test_an_engine_that_crashed_while_it_answered_gets_one_request(last):
    """Any byte says that it was not stale: it has read the prompt, and may have run it."""
    assert await stale(POST, last=last) == (b"", 2, 0)


@in_loop
async def test_a_crashing_engine_gets_one_request():
    """Beyond 100 ms it was no stale socket: exactly one request, and the client sees the end."""
    assert await stale(POST, wait=0.15) == (b"", 2, 0)


@pytest.mark.parametrize(
    ("mode", "request_bytes", "retried"),
    [
        ("off", GET, 0),
        ("off", POST, 0),
        ("idempotent", GET, 1),
        ("idempotent", POST, 0),
        ("fresh_close", GET, 1),
        ("fresh_close", POST, 1),
    ],
)
@in_loop
async def test_retry_stale_says_so(mode, request_bytes, retried):
    """The configuration's three words."""
    assert (await stale(request_bytes, retry_stale=mode))[2] == retried


@pytest.mark.parametrize(
    "body",
    [
        b'{"previous_response_id": "r1"}',
        b'{"conversation":"c1"}',
        b'{"store": true}',
    ],
)
@in_loop
async def test_a_stateful_request_is_not_tried_again(body):
    """What takes up or keeps something at the engine is sent once."""
    request = POST.replace(b"Length: 2", b"Length: %d" % len(body)).replace(b"{}", body)
    assert await stale(request) == (b"", 2, 0)


@in_loop
async def test_responses_are_stateful_unless_they_say_not():
    """The Responses API stores by default."""
    plain = POST.replace(b"chat/completions", b"responses")
    body = b'{"store":false}'
    explicit = plain.replace(b"Length: 2", b"Length: %d" % len(body)).replace(b"{}", body)
    assert (await stale(plain))[2] == 0
    assert (await stale(explicit))[2] == 1


@in_loop
async def test_a_fresh_connection_is_not_retried():
    """Only a reused socket can be stale."""
    seen = []

    async def script(connection):
        await connection.request()
        seen.append(1)

    async with upstream(script) as primary, proxy(primary.url) as stage, client(stage.port) as user:
        await user.write(POST)
        assert await user.rest() == b""
        assert len(seen) == 1


@in_loop
async def test_a_request_that_is_not_at_hand_is_not_retried():
    """Beyond limits.request_bytes it is not kept."""
    big = POST.replace(b"Length: 2", b"Length: 2000").replace(b"{}", b"x" * 2000)
    assert (await stale(big))[2] == 1
    assert (await stale(big, limits={"request_bytes": "1KiB"}))[2] == 0


@in_loop
async def test_a_stale_connection_in_the_middle_of_an_upload():
    """What was sent goes out again, what follows goes on: the new connection gets it whole."""
    request = b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabcdef"
    ends = []

    async def script(connection):
        if not ends:
            ends.append(1)
            await connection.request()
            await connection.write(OK)
            await connection.until(b"abc")
            return
        await connection.request()
        await connection.write(OK)
        await connection.rest()

    async with (
        upstream(script) as primary,
        proxy(primary.url) as stage,
        client(stage.port) as user,
    ):
        await user.write(GET)
        await user.exactly(len(OK))
        await user.write(request[:-3])
        await until(lambda: stage.totals.stale_retries == 1)
        await user.write(request[-3:])
        assert await user.exactly(len(OK)) == OK
        assert primary.connections[1].received == request


@in_loop
async def test_the_retry_is_one():
    """A second stale end is the client's to see."""
    first = asyncio.Event()
    seen = []

    async def script(connection):
        await connection.request()
        seen.append(1)
        if not first.is_set():
            first.set()
            await connection.write(OK)
            await connection.request()
            seen.append(1)

    async with upstream(script) as primary, proxy(primary.url) as stage, client(stage.port) as user:
        await user.write(GET)
        await user.exactly(len(OK))
        await user.write(POST)
        assert await user.rest() == b""
        assert len(seen) == 3
        assert stage.totals.stale_retries == 1


@in_loop
async def test_a_slow_client_holds_the_upstream_back():
    """Back-pressure: with a client that does not read, the proxy stops reading the upstream."""
    size = 32 * 2**20
    written = 0

    async def script(connection):
        nonlocal written
        await connection.request()
        await connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size // 65536):
            await connection.write(b"x" * 65536)
            written += 65536

    async with upstream(script) as primary, proxy(primary.url) as stage, client(stage.port) as user:
        user.writer.transport.pause_reading()
        await user.write(GET)
        before = -1
        while written != before:
            before = written
            await asyncio.sleep(0.15)
        assert written < size * 0.75
        user.writer.transport.resume_reading()
        head = await user.until(b"\r\n\r\n")
        assert len(await user.exactly(size)) == size
        assert head


@in_loop
async def test_a_slow_upstream_holds_the_client_back():
    """Back-pressure the other way: an upload is read no faster than the primary takes it."""
    size = 32 * 2**20
    gate = asyncio.Event()

    async def script(connection):
        connection.writer.transport.pause_reading()
        await gate.wait()
        connection.writer.transport.resume_reading()
        await connection.request()
        await connection.write(OK)

    async with upstream(script) as primary, proxy(primary.url) as stage, client(stage.port) as user:
        sent = 0

        async def upload():
            nonlocal sent
            await user.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % size)
            for _ in range(size // 65536):
                await user.write(b"x" * 65536)
                sent += 65536

        uploading = asyncio.ensure_future(upload())
        before = -1
        while sent != before:
            before = sent
            await asyncio.sleep(0.15)
        assert sent < size * 0.75
        gate.set()
        await uploading
        assert await user.exactly(len(OK)) == OK


@in_loop
async def test_what_is_sent_ahead_is_bounded():
    """A client that pipelines without end is read no further than its bound, and served in order."""
    gate = asyncio.Event()

    async def script(connection):
        while True:
            await connection.request()
            await gate.wait()
            await connection.write(OK)

    request = b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 9000\r\n\r\n" + b"x" * 9000
    async with upstream(script) as primary, proxy(primary.url) as stage, client(stage.port) as user:
        sending = asyncio.ensure_future(user.write(request * 400))
        await until(
            lambda: stage.proxy.relay.clients and next(iter(stage.proxy.relay.clients))._paused
        )
        assert len(next(iter(stage.proxy.relay.clients))._ahead) < 400_000
        gate.set()
        for _ in range(400):
            assert await user.exactly(len(OK)) == OK
        await sending


@in_loop
async def test_names_are_never_resolved_on_the_request_path():
    """A resolver that hangs after its first answer delays nobody: the last good address serves."""
    import threading

    release = threading.Event()
    calls = []

    def lookup(host, port):
        calls.append(host)
        if len(calls) > 1:
            release.wait(5)
        return ["127.0.0.1"]

    async with upstream(answering(OK)) as primary:
        url = f"http://engine.test:{primary.port}"
        async with proxy(url, lookup=lookup) as stage:
            for _ in range(3):
                async with client(stage.port) as user:
                    await user.write(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
                    assert (await user.rest()).endswith(b"ok")
        release.set()
    assert calls == ["engine.test"]


@in_loop
async def test_a_dead_address_is_passed_over():
    """With several addresses a connection that is refused tries the next, and the dead one is the
    last for a while."""
    async with upstream(answering(OK)) as primary:
        url = f"http://engine.test:{primary.port}"
        async with proxy(url, lookup=lambda *_: ["127.0.0.9", "127.0.0.1"]) as stage:
            pool, tried = stage.proxy.relay.pool, []
            opening = pool._open_one

            async def open_one(address):
                tried.append(address)
                return await opening(address)

            pool._open_one = open_one
            for _ in range(6):
                async with client(stage.port) as user:
                    await user.write(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
                    assert (await user.rest()).endswith(b"ok")
                for idle in list(pool._idle):
                    idle.abort()
                await until(lambda: not pool._open)
        assert tried.count("127.0.0.9") <= 1
        assert tried.count("127.0.0.1") == 6


@in_loop
async def test_an_address_that_answers_nothing_is_waited_for_once():
    """A black hole takes its share of the connect timeout, from one connection and not from each."""
    async with upstream(answering(OK)) as primary:
        settings = {"url": f"http://engine.test:{primary.port}", "connect_timeout": "400ms"}
        async with proxy(settings, lookup=lambda *_: ["127.0.0.9", "127.0.0.1"]) as stage:
            pool, tried = stage.proxy.relay.pool, []
            opening = pool._open_one

            async def open_one(address):
                tried.append(address)
                if address == "127.0.0.9":
                    await asyncio.Event().wait()
                return await opening(address)

            pool._open_one = open_one
            for _ in range(6):
                async with client(stage.port) as user:
                    await user.write(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
                    assert (await user.rest()).endswith(b"ok")
                for idle in list(pool._idle):
                    idle.abort()
                await until(lambda: not pool._open)
        assert tried.count("127.0.0.9") == 1
        assert tried.count("127.0.0.1") == 6


@in_loop
async def test_an_unreachable_primary_is_a_502():
    """Connection refused: an error of the API's shape that says so and no address, and a close."""
    async with upstream(answering(OK)) as gone:
        port = gone.port
    async with proxy(f"http://127.0.0.1:{port}") as stage, client(stage.port) as user:
        await user.write(POST)
        answer = await user.rest()
        assert answer.startswith(b"HTTP/1.1 502 ")
        assert b"\r\nContent-Type: application/json\r\n" in answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {
            "error": {
                "message": "shadow: no connection to the primary",
                "type": "upstream_unreachable",
                "code": 502,
            }
        }
        assert b"127.0.0.1" not in answer
        assert "refused" in stage.totals.last_connect_error
        assert stage.totals.connect_failed == 1


@in_loop
async def test_an_answer_below_100_is_passed_whole():
    """As an engine that says nonsense would be heard without us."""
    odd = OK.replace(b"200 OK", b"042 odd")
    async with (
        upstream(answering(odd)) as primary,
        proxy(primary.url) as stage,
        client(stage.port) as user,
    ):
        for _ in range(2):
            await user.write(GET)
            assert await user.exactly(len(odd)) == odd


@in_loop
async def test_drain_lets_streams_end():
    """Stop accepting, end idle clients, `Connection: close` on heads not yet sent, wait for streams."""
    gate = asyncio.Event()

    async def script(connection):
        await connection.request()
        await gate.wait()
        await connection.write(OK)
        await connection.rest()

    async with upstream(script) as primary, proxy(primary.url) as stage:
        async with client(stage.port) as idle, client(stage.port) as busy:
            await busy.write(GET)
            await until(lambda: stage.totals.open_streams == 1)
            draining = asyncio.ensure_future(stage.proxy.drain(5))
            assert await idle.rest() == b""
            with pytest.raises(OSError):
                await asyncio.open_connection("127.0.0.1", stage.port)
            gate.set()
            assert await busy.rest() == OK.replace(b"2\r\n\r\n", b"2\r\nConnection: close\r\n\r\n")
            await asyncio.wait_for(draining, 2)
        assert stage.totals.cut_by_drain == 0


@in_loop
async def test_drain_cuts_what_does_not_end():
    """After its time the rest is cut, as a reset, and counted."""

    async def script(connection):
        await connection.request()
        await connection.write(STARTS["inside chunks"])
        await connection.rest()

    async with upstream(script) as primary, proxy(primary.url) as stage, client(stage.port) as user:
        await user.write(GET)
        await user.exactly(len(STARTS["inside chunks"]))
        await stage.proxy.drain(0.05)
        with pytest.raises(ConnectionResetError):
            await user.rest()
        assert stage.totals.cut_by_drain == 1


@in_loop
async def test_drain_without_streams_is_quick():
    """With no stream running it is a matter of a moment."""
    async with upstream(answering(OK)) as primary, proxy(primary.url) as stage:
        begun = time.monotonic()
        await stage.proxy.drain(30)
        assert time.monotonic() - begun < 0.5


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: h\r\nA: " + b"a" * 70_000 + b"\r\n\r\n", 431),
        (b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", 501),
        (b"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505),
    ],
)
@in_loop
async def test_refusals_are_errors_of_the_api_s_shape(request_bytes, status):
    """Clients parse an error's body: message, type, code."""
    async with (
        upstream(answering(OK)) as primary,
        proxy(primary.url) as stage,
        client(stage.port) as user,
    ):
        await user.write(request_bytes)
        head, _, body = (await user.rest()).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d " % status)
        error = json.loads(body)["error"]
        assert error["message"].startswith("shadow: ")
        assert (error["type"], error["code"]) == ("invalid_request_error", status)
        assert not primary.connections
