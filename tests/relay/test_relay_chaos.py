"""Everything at once, by a seed: clients, the primary and two arms each do as they like.

Whatever they do: the books balance, no token, stream or connection is left, and no exception came
out of mirror code.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest
from relay.raw import client, in_loop, proxy, until, upstream

BODY = b'{"model":"m","messages":[]}'
EVENT = b"data: {}\n\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def whole(connection, rng):
    text = b"x" * rng.randrange(1, 3000)
    await connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
    return True


async def stream(connection, rng):
    await connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(rng.randrange(6)):
        await connection.write(chunk(EVENT))
        await asyncio.sleep(rng.choice([0, 0, 0.001]))
    await connection.write(b"0\r\n\r\n")
    return True


async def unframed(connection, rng):
    await connection.write(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")
    return False


async def said_close(connection, rng):
    await connection.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx")
    return False


async def silent_end(connection, rng):
    return False


async def reset(connection, rng):
    if rng.random() < 0.5:
        await connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")
    connection.reset()
    return False


async def garbage(connection, rng):
    await connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
    return False


async def hang(connection, rng):
    await connection.rest()
    return False


async def left_over(connection, rng):
    await connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxmore")
    return True


GOOD = [whole, stream, stream, unframed, said_close]
ANY = [*GOOD, silent_end, reset, garbage, hang, left_over]


def behaving(rng: random.Random, manners: list):
    async def script(connection):
        while True:
            if rng.random() < 0.03:
                connection.reset()
                return
            if rng.random() < 0.05:  # an answer before the request was read
                await connection.until(b"\r\n\r\n")
                await connection.write(b"HTTP/1.1 429 No\r\nContent-Length: 0\r\n\r\n")
                return
            await connection.request()
            if not await rng.choice(manners)(connection, rng):
                return

    return script


async def one_client(port: int, rng: random.Random) -> None:
    """Up to five requests on one connection, left at any point."""
    async with client(port) as user:
        for _ in range(rng.randrange(1, 6)):
            chunked = rng.random() < 0.4
            fields = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(BODY)
            head = b"POST /v1/completions HTTP/1.1\r\nHost: h\r\n" + fields + b"\r\n\r\n"
            request = head + (chunk(BODY) + b"0\r\n\r\n" if chunked else BODY)
            stop = rng.randrange(1, len(request)) if rng.random() < 0.1 else len(request)
            cut = rng.randrange(stop + 1)
            await user.write(request[:cut])
            await asyncio.sleep(rng.choice([0, 0.001]))
            await user.write(request[cut:stop])
            if stop < len(request):
                if rng.random() < 0.5:
                    user.reset()
                return
            if rng.random() < 0.15:
                await asyncio.sleep(rng.random() * 0.01)
                return
            async with asyncio.timeout(0.3):
                await user.request()


@pytest.mark.parametrize("seed", range(6))
@in_loop
async def test_the_books_balance_whatever_happens(seed):
    """120 clients, 30 at a time, against unruly upstreams."""
    rng = random.Random(seed)
    async with (
        upstream(behaving(rng, ANY)) as primary,
        upstream(behaving(rng, ANY)) as fp8,
        upstream(behaving(rng, GOOD)) as control,
    ):
        arms = {
            "fp8": {"url": fp8.url, "deadline": "200ms", "concurrency": 8},
            "control": {"url": control.url, "role": "control", "sample": 0.5, "deadline": "400ms"},
        }
        async with proxy(primary.url, arms) as stage:
            gate = asyncio.Semaphore(30)

            async def guarded() -> None:
                async with gate:
                    with suppress(OSError, EOFError, TimeoutError):  # an unruly primary's doing
                        await one_client(stage.port, rng)

            await asyncio.gather(*(guarded() for _ in range(120)))
            await until(lambda: not any(arm.open for arm in stage.proxy.mirror.arms))
            await until(lambda: not stage.totals.open_streams)
            counts = stage.ledger.counts
            for name in ("primary", "fp8", "control"):
                assert stage.ledger.balanced(name), counts
                assert counts[name, "eligible", ""] == counts["primary", "eligible", ""] > 100
            assert not stage.ledger.held
            words = {exchange.transport for exchange in stage.publisher.exchanges}
            assert {"complete", "reset", "client_disconnected", "malformed", "timed_out"} <= words
            assert "" not in words
            await until(lambda: not stage.totals.open_connections)
            pools = [stage.proxy.relay.pool, *(arm.pool for arm in stage.proxy.mirror.arms)]
            await until(lambda: all(len(pool._open) == len(pool._idle) for pool in pools))
            assert not any(pool._connecting for pool in pools)


async def one_gateway(port: int, rng: random.Random) -> None:
    """Copies as a gateway mirrors them: all at once or in pieces, left at any point."""
    async with client(port) as user:
        for _ in range(rng.randrange(1, 6)):
            head = b"POST /v1/completions HTTP/1.1\r\nHost: h-shadow\r\n"
            if rng.random() < 0.4:
                request = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(BODY) + b"0\r\n\r\n"
            else:
                request = head + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
            cut = rng.randrange(len(request))
            await user.write(request[:cut])
            if rng.random() < 0.1:
                return
            await asyncio.sleep(rng.choice([0, 0.001]))
            await user.write(request[cut:])
            assert (await user.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 202 ")


@pytest.mark.parametrize("seed", range(3))
@in_loop
async def test_the_books_of_a_tap_balance_too(seed):
    """120 gateways' connections, an unruly replica, unruly arms; every copy has its 202."""
    rng = random.Random(seed)
    async with (
        upstream(behaving(rng, ANY)) as replica,
        upstream(behaving(rng, ANY)) as fp8,
    ):
        arms = {"fp8": {"url": fp8.url, "deadline": "200ms", "concurrency": 20, "breaker": "off"}}
        primary = {"url": replica.url, "deadline": "200ms", "concurrency": 20}
        async with proxy(primary, arms, attach="tap") as stage:
            gate = asyncio.Semaphore(30)

            async def guarded() -> None:
                async with gate:
                    await one_gateway(stage.port, rng)

            await asyncio.gather(*(guarded() for _ in range(120)))
            await until(lambda: not stage.totals.open_streams)
            await until(lambda: not any(arm.open for arm in stage.proxy.mirror.arms))
            counts = stage.ledger.counts
            for name in ("primary", "fp8"):
                assert stage.ledger.balanced(name), counts
                assert counts[name, "eligible", ""] == counts["primary", "eligible", ""] > 100
            assert counts["fp8", "dropped", "concurrency"]
            assert not stage.ledger.held
            words = {exchange.transport for exchange in stage.publisher.exchanges}
            assert {"complete", "reset", "malformed", "timed_out"} <= words
            assert "" not in words
            pools = [stage.proxy.relay.pool, *(arm.pool for arm in stage.proxy.mirror.arms)]
            await until(lambda: all(len(pool._open) == len(pool._idle) for pool in pools))


@in_loop
async def test_a_hung_arm_grows_nothing():
    """A thousand requests beside an arm that never answers: open requests, sockets and tasks stay."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    async def quick(connection):
        while True:
            await connection.request()
            await connection.write(answer)

    async def hung(connection):
        await connection.request()
        await connection.rest()

    request = b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"
    async with (
        upstream(quick) as primary,
        upstream(hung) as arm,
        proxy(
            primary.url, {"fp8": {"url": arm.url, "concurrency": 5, "deadline": "150ms"}}
        ) as stage,
        client(stage.port) as user,
    ):
        (mirrored,) = stage.proxy.mirror.arms
        for _ in range(1000):
            await user.write(request)
            assert await user.exactly(len(answer)) == answer
            assert len(mirrored.open) <= 5
            assert len(mirrored.pool._open) <= 10
        await until(lambda: not mirrored.open)
        counts = stage.ledger.counts
        assert counts["fp8", "captured", ""] + counts["fp8", "dropped", "concurrency"] == 1000
        await until(lambda: not mirrored.pool._open)
