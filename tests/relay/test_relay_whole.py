"""Promises about a whole stream at once: when bytes pass, how many fit, who hears of an end, and when."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import random
import threading
import time
import zlib
from collections import Counter
from pathlib import Path

import pytest
from relay.raw import answering, client, hang, in_loop, proxy, until, upstream

from shadow.relay import addresses

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + CHUNKED


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


# when bytes pass


@in_loop
async def test_an_upload_of_single_bytes_streams_while_it_arrives():
    """Chunks of one byte with 200 ms between some: each is at the primary before the next is sent;
    the candidate gets the body whole, as JSON, with one length."""
    body = b'{"model":"m"}'

    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
        client(stage.port) as user,
    ):
        sent = CHAT + CHUNKED
        await user.write(sent)
        for n, byte in enumerate(body):
            if n in {1, 5}:
                await asyncio.sleep(0.2)
            sent += chunk(bytes([byte]))
            await user.write(chunk(bytes([byte])))
            await until(lambda: primary.connections)
            await until(lambda so_far=sent: primary.connections[0].received == so_far)
        assert not candidate.connections
        await user.write(b"0\r\n\r\n")
        assert await user.exactly(len(OK)) == OK
        await until(lambda: candidate.connections)
        await until(lambda: candidate.connections[0].received.endswith(b"\r\n\r\n" + body))
        assert b"\r\nContent-Length: %d\r\n" % len(body) in candidate.connections[0].received
        assert b"chunked" not in candidate.connections[0].received
        await stage.publisher.wait_for(2)


@pytest.mark.parametrize("arms", [0, 1], ids=["alone", "mirrored"])
@in_loop
async def test_events_pass_read_by_read(arms):
    """Fifty events, each sent when the client has the one before: none waits for another, and the
    record has a mark for each."""
    gate = asyncio.Event()
    events = [chunk(b'data: {"n":%d}\n\n' % n) for n in range(50)]

    async def gated(connection):
        await connection.request()
        await connection.write(SSE)
        for event in events:
            await gate.wait()
            gate.clear()
            await connection.write(event)
        await gate.wait()
        await connection.write(b"0\r\n\r\n")

    async with (
        upstream(gated) as primary,
        upstream(answering(SSE + b"0\r\n\r\n")) as candidate,
        proxy(primary.url, {"fp8": candidate.url} if arms else {}) as stage,
        client(stage.port) as user,
    ):
        await user.write(CHAT + b"Content-Length: 2\r\n\r\n{}")
        assert await user.until(b"\r\n\r\n") == SSE
        for event in events:
            gate.set()
            assert await user.some() == event
        gate.set()
        assert await user.until(b"0\r\n\r\n") == b"0\r\n\r\n"
        if arms:
            exchanges = await stage.publisher.wait_for(2)
            by_primary = next(e for e in exchanges if e.arm == "primary")
            assert len(by_primary.marks) == len(events)


def _brotli(data: bytes) -> bytes:
    brotli = pytest.importorskip("brotli")
    return bytes(brotli.compress(data))


TEXT = b'{"model":"m","messages":[{"role":"user","content":"' + b"hello " * 500 + b'"}]}'
CODED = {
    "gzip": lambda: gzip.compress(TEXT),
    "deflate": lambda: zlib.compress(TEXT),
    "br": lambda: _brotli(TEXT),
    # RFC 8878: a frame of one raw block
    "zstd": lambda: (
        b"\x28\xb5\x2f\xfd\x60"
        + (len(TEXT) - 256).to_bytes(2, "little")
        + (len(TEXT) << 3 | 1).to_bytes(3, "little")
        + TEXT
    ),
    "what nobody knows": lambda: random.Random(1).randbytes(4000),
}


@pytest.mark.parametrize("coding", CODED)
@in_loop
async def test_coded_bodies_pass_untouched_both_ways(coding):
    """gzip, deflate, br, zstd and anything else: bytes, Content-Encoding and Accept-Encoding are the
    sender's, up and down, whatever the mirror makes of its copy."""
    body = CODED[coding]()
    fields = b"Content-Encoding: %b\r\nAccept-Encoding: zstd, br;q=0.9, gzip\r\n" % coding.encode()
    request = CHAT + fields + b"Content-Length: %d\r\n\r\n" % len(body) + body
    answer = (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\n" % coding.encode()
        + CHUNKED
        + chunk(body)
        + b"0\r\n\r\n"
    )

    async def script(connection):
        await connection.request()
        await connection.write(answer)

    async with (
        upstream(script) as primary,
        upstream(script) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
        client(stage.port) as user,
    ):
        await user.write(request)
        assert await user.exactly(len(answer)) == answer
        assert primary.connections[0].received == request
        assert stage.totals.mirror_errors == 0


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
        CHAT + CHUNKED + b"0\r\n\r\n",
        b"GET /search HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}",
        b"DELETE /v1/files/a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}",
        b"PATCH /x HTTP/1.1\r\nHost: h\r\n" + CHUNKED + b"2\r\nhi\r\n0\r\n\r\n",
    ],
)
@in_loop
async def test_empty_bodies_and_bodies_of_any_method(request_bytes):
    """No body, an empty one, empty chunks, a body on GET or DELETE: each arrives as it was sent."""

    async def script(connection):
        while True:
            await connection.request()
            await connection.write(OK)

    async with upstream(script) as primary, proxy(primary.url) as stage, client(stage.port) as user:
        for n in (1, 2):
            await user.write(request_bytes)
            assert await user.exactly(len(OK)) == OK
            assert primary.connections[0].received == request_bytes * n
        assert len(primary.connections) == 1


# how many fit

MIB = 2**20
BIG = 200 * MIB
BLOCK = random.Random(7).randbytes(MIB)


def rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def drained(reader: asyncio.StreamReader, size: int) -> str:
    """The hash of so many bytes, which nobody keeps."""
    seen, left = hashlib.blake2b(), size
    while left:
        data = await reader.read(min(left, 262144))
        assert data, "it ended early"
        seen.update(data)
        left -= len(data)
    return seen.hexdigest()


@in_loop
async def test_200_mb_both_ways_at_flat_memory():  # noqa: C901 both ends of one exchange
    """Up with a length, down in chunks, beside an arm: not a byte differs, memory stays; the request
    is too large to mirror, which is counted."""
    expected = hashlib.blake2b()
    for _ in range(BIG // MIB):
        expected.update(BLOCK)
    arrived = {}

    async def script(connection):
        await connection.until(b"\r\n\r\n")
        seen = hashlib.blake2b(connection.unread)
        left = BIG - len(connection.unread)
        while left:
            data = await connection.reader.read(min(left, 262144))
            seen.update(data)
            left -= len(data)
        arrived["up"] = seen.hexdigest()
        await connection.write(b"HTTP/1.1 200 OK\r\n" + CHUNKED)
        for _ in range(BIG // MIB):
            await connection.write(b"%x\r\n" % MIB)
            await connection.write(BLOCK)
            await connection.write(b"\r\n")
        await connection.write(b"0\r\n\r\n")

    async with (
        upstream(script) as primary,
        upstream(answering(OK)) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
    ):
        before, most = rss_bytes(), 0
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.port, limit=MIB)

        async def send():
            writer.write(CHAT + b"Content-Length: %d\r\n\r\n" % BIG)
            for _ in range(BIG // MIB):
                writer.write(BLOCK)
                await writer.drain()

        async def watch():
            nonlocal most
            while True:
                most = max(most, rss_bytes())
                await asyncio.sleep(0.02)

        watching, sending = asyncio.ensure_future(watch()), asyncio.ensure_future(send())
        await reader.readuntil(b"\r\n\r\n")
        await sending
        seen = hashlib.blake2b()
        for _ in range(BIG // MIB):
            assert await reader.readuntil(b"\r\n") == b"%x\r\n" % MIB
            left = MIB
            while left:
                data = await reader.read(left)
                seen.update(data)
                left -= len(data)
            assert await reader.readexactly(2) == b"\r\n"
        assert await reader.readexactly(5) == b"0\r\n\r\n"
        watching.cancel()
        writer.transport.abort()
        assert arrived["up"] == seen.hexdigest() == expected.hexdigest()
        assert most - before < 48 * MIB
        assert stage.ledger.counts[("fp8", "skipped", "body_too_large")] == 1
        assert not candidate.connections


@in_loop
async def test_beyond_answer_bytes_marks_and_the_tail_go_on():
    """The client gets all of it; the record has the beginning, the end, how much is missing between
    them, and every arrival's mark; its end is known."""
    parts = [b"%06d" % n + b"." * 994 for n in range(100)]

    async def script(connection):
        await connection.request()
        await connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        for part in parts:
            await connection.write(part)
            await asyncio.sleep(0)

    limits = {"answer_bytes": "10KiB", "answer_tail": "1KiB"}
    async with (
        upstream(script) as primary,
        upstream(script) as candidate,
        proxy(primary.url, {"fp8": candidate.url}, limits=limits) as stage,
        client(stage.port) as user,
    ):
        await user.write(CHAT + b"Content-Length: 2\r\n\r\n{}")
        await user.until(b"\r\n\r\n")
        assert await user.exactly(100_000) == b"".join(parts)
        for exchange in await stage.publisher.wait_for(2):
            assert exchange.transport == "complete"
            assert exchange.body == (b"".join(parts))[:10240] + (b"".join(parts))[-1024:]
            assert exchange.captured_bytes + exchange.truncated_bytes == 100_000
            assert exchange.marks[-1][1] == 100_000


# who hears of an end, and when


@pytest.mark.parametrize("how", ["FIN", "RST"])
@in_loop
async def test_a_client_that_leaves_before_the_first_byte(how):
    """The primary and the arm, at work on it, see it within a second; both records say so, without a
    status, and neither is anybody's failure."""
    left: dict[str, float] = {}

    def working(name):
        async def script(connection):
            await connection.request()
            try:
                await connection.some()
            finally:
                left[name] = time.monotonic()

        return script

    async with (
        upstream(working("primary")) as primary,
        upstream(working("fp8")) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
    ):
        async with client(stage.port) as user:
            await user.write(CHAT + b"Content-Length: 2\r\n\r\n{}")
            await until(lambda: candidate.connections and candidate.connections[0].received)
            gone = time.monotonic()
            if how == "FIN":
                user.writer.write_eof()
                await until(lambda: "primary" in left)
            else:
                user.reset()
                await until(lambda: "primary" in left)
        assert left["primary"] - gone < 1
        exchanges = await stage.publisher.wait_for(2)
        assert {e.transport for e in exchanges} == {"client_disconnected"}
        assert {e.status for e in exchanges} == {None}
        await until(lambda: "fp8" in left)
        assert left["fp8"] - gone < 1
        assert stage.totals.client_disconnected == 1
        assert stage.totals.upstream_lost == 0


@in_loop
async def test_a_websocket_is_counted_and_not_mirrored():
    """It passes; on a path that is mirrored it is skipped with its reason, elsewhere nobody's."""

    async def script(connection):
        await connection.until(b"\r\n\r\n")
        await connection.write(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        )
        await connection.write(await connection.some())

    async with (
        upstream(script) as primary,
        upstream(answering(OK)) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
    ):
        for path in (b"/v1/realtime", b"/v1/responses"):
            async with client(stage.port) as user:
                await user.write(
                    b"GET %b HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
                    % path
                )
                await user.until(b"\r\n\r\n")
                await user.write(b"\x81\x02hi")
                assert await user.exactly(4) == b"\x81\x02hi"
        assert stage.totals.upgrades == 2
        assert stage.ledger.counts == {
            ("primary", "eligible", ""): 1,
            ("primary", "skipped", "upgrade"): 1,
            ("fp8", "eligible", ""): 1,
            ("fp8", "skipped", "upgrade"): 1,
        }
        assert not candidate.connections
        assert not stage.publisher.exchanges


# names


HANGING = 40
"""More than the loop's default executor has threads, which are 32 at most."""


@in_loop
async def test_every_arm_s_black_holed_dns_costs_the_primary_nothing(monkeypatch, tmp_path):
    """Forty arms: the look-ups of one half never end, those of the other at the refresh. The primary's
    own go on, every request of its client needs a new connection, and none is held up, not the
    slowest of them; nor is a file that the loop's shared threads read; the start hardly waits."""
    monkeypatch.setattr(addresses, "REFRESH_S", 0.05)
    release, asked, hung = threading.Event(), Counter(), set()

    def lookup(host: str, port: int) -> list[str]:
        del port
        asked[host] += 1
        if host != "primary.test" and (host.startswith("a") or asked[host] > 1):
            hung.add(host)
            release.wait(20)
            raise OSError("no answer")
        return ["127.0.0.1"]

    closing = answering(OK.replace(b"2\r\n\r\n", b"2\r\nConnection: close\r\n\r\n"), keep=False)
    file = tmp_path / "file"
    file.write_bytes(b"read")
    arms = {
        f"{half}{n}": {"url": f"http://{half}{n}.test:1", "breaker": "off"}
        for half in "ab"
        for n in range(HANGING // 2)
    }
    try:
        async with upstream(closing) as primary:
            starting = time.monotonic()
            async with (
                proxy(
                    f"http://primary.test:{primary.port}", arms, lookup, networks=["*.test"]
                ) as stage,
                client(stage.port) as user,
            ):
                assert time.monotonic() - starting < 3  # not the connect timeout's 5 s
                await until(lambda: len(hung) == HANGING)
                before, slowest = asked["primary.test"], 0.0
                for _ in range(20):
                    begun = time.monotonic()
                    await user.write(CHAT + b"Content-Length: 2\r\n\r\n{}")
                    assert (await user.request())[1] == b"ok"
                    assert await asyncio.to_thread(file.read_bytes) == b"read"
                    slowest = max(slowest, time.monotonic() - begun)
                assert slowest < 1  # a look-up that is waited for takes 20 s here
                await until(lambda: asked["primary.test"] > before + 2)
                assert len(primary.connections) == 20
                words = {
                    (e.arm, e.transport) for e in await stage.publisher.wait_for(20 * (HANGING + 1))
                }
                assert words == {
                    ("primary", "complete"),
                    *((arm, "connect_failed") for arm in arms),
                }
                assert all(asked[f"a{n}.test"] == 1 for n in range(HANGING // 2))  # one, not a heap
    finally:
        release.set()
        for thread in threading.enumerate():
            if thread.name.startswith("names "):
                thread.join(5)


# stale connections


def closing_when_idle(idle_s: float):
    """A server that closes a kept connection after so long without a request, as uvicorn does."""

    async def script(connection):
        while True:
            try:
                async with asyncio.timeout(idle_s):
                    head = await connection.until(b"\r\n\r\n")
            except TimeoutError:
                return
            assert head.startswith(b"POST ")
            await connection.exactly(2)
            await connection.write(OK)

    return script


@pytest.mark.parametrize("idle", ["40ms", "10s"], ids=["below the engine's", "beyond it"])
@in_loop
async def test_an_engine_that_closes_idle_connections_costs_nobody_an_answer(idle):
    """Requests that come about when the engine closes its idle connection, 60 ms here for uvicorn's
    5 s: below its time-out connections are closed by us first; beyond it the close is met, seen or
    tried once more. Not one client gets anything but its answer."""
    rng = random.Random(3)
    async with (
        upstream(closing_when_idle(0.06)) as primary,
        proxy({"url": primary.url, "idle_timeout": idle}) as stage,
    ):

        async def one():
            async with client(stage.port) as user:
                for _ in range(20):
                    await user.write(CHAT + b"Content-Length: 2\r\n\r\n{}")
                    assert await user.exactly(len(OK)) == OK
                    await asyncio.sleep(0.06 + rng.uniform(-0.004, 0.004))

        await asyncio.gather(*(one() for _ in range(10)))
        assert stage.totals.upstream_lost == 0
        assert stage.totals.connect_failed == 0
        assert stage.totals.by_class[2] == 200


@pytest.mark.parametrize("after", [0.15, 1.0])
@in_loop
async def test_an_engine_that_crashes_after_reading_gets_the_request_once(after):
    """On a kept connection: it has read the prompt, and a second later it is gone. The client sees
    the connection end, and no other engine ever sees that prompt."""
    seen = []

    async def script(connection):
        await connection.request()
        await connection.write(OK)
        head, _ = await connection.request()
        seen.append(head)
        await asyncio.sleep(after)
        connection.reset()

    async with (
        upstream(script) as primary,
        proxy(primary.url) as stage,
        client(stage.port) as user,
    ):
        for _ in range(2):
            await user.write(CHAT + b"Content-Length: 2\r\n\r\n{}")
            if not seen and not stage.totals.by_class[2]:
                assert await user.exactly(len(OK)) == OK
        with pytest.raises(ConnectionResetError):
            await user.rest()
        await asyncio.sleep(0.05)
        assert len(seen) == 1
        assert len(primary.connections) == 1
        assert stage.totals.stale_retries == 0


# drain


@in_loop
async def test_a_drain_among_long_streams():
    """Ten streams run on, event by event, long after the drain began; a request whose head was half
    sent is still answered, and told to close; nothing of it is mirrored; mirrors still open when
    the last client has gone are dropped `shutdown`."""
    ends = asyncio.Event()

    async def streaming(connection):
        head, _ = await connection.request()
        if b"/late" in head:
            await connection.write(OK)
            return
        await connection.write(SSE)
        while not ends.is_set():
            await connection.write(chunk(b"data: x\n\n"))
            await asyncio.sleep(0.02)
        await connection.write(b"0\r\n\r\n")

    async with (
        upstream(streaming) as primary,
        upstream(hang) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
    ):
        users = [await asyncio.open_connection("127.0.0.1", stage.port) for _ in range(10)]
        for reader, writer in users:
            writer.write(CHAT + b"Content-Length: 2\r\n\r\n{}")
            await reader.readuntil(b"\r\n\r\n")
        await until(lambda: len(candidate.connections) == 10)
        async with client(stage.port) as late:
            await late.write(b"POST /late HTTP/1.1\r\nHo")
            await until(lambda: any(c.head_since for c in stage.proxy.relay.clients))
            draining = asyncio.ensure_future(stage.proxy.drain(10))
            await asyncio.sleep(0.1)
            await late.write(b"st: h\r\nContent-Length: 2\r\n\r\n{}")
            assert (await late.rest()).endswith(b"\r\nConnection: close\r\n\r\nok")
        before = [len(await reader.readuntil(b"data: x\n\n\r\n")) for reader, _ in users]
        await asyncio.sleep(0.3)
        assert not draining.done()
        assert all(before)
        ends.set()
        for reader, writer in users:
            assert (await reader.read()).endswith(b"0\r\n\r\n")
            writer.close()
        await asyncio.wait_for(draining, 3)
        assert stage.totals.cut_by_drain == 0
        counts = stage.ledger.counts
        assert counts[("fp8", "dropped", "shutdown")] == 10
        assert counts[("primary", "captured", "")] == 10
        assert stage.ledger.balanced("fp8")


@in_loop
async def test_a_drain_answers_who_was_just_writing():
    """A request that comes on an idle connection just when the drain has begun has its answer, which
    says close; whoever stays idle is closed within two seconds."""
    async with (
        upstream(answering(OK)) as primary,
        proxy(primary.url) as stage,
        client(stage.port) as busy,
        client(stage.port) as idle,
    ):
        for user in (busy, idle):
            await user.write(GET)
            await user.exactly(len(OK))
        begun = time.monotonic()
        draining = asyncio.ensure_future(stage.proxy.drain(10))
        await asyncio.sleep(0.1)
        await busy.write(GET)
        assert (await busy.rest()).endswith(b"\r\nConnection: close\r\n\r\nok")
        assert await idle.rest() == b""
        await draining
        assert 0.5 < time.monotonic() - begun < 2
