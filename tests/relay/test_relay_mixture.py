"""Whatever clients, engines and operators do at the same time, the mirror's books balance."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
from contextlib import AsyncExitStack, suppress
from time import monotonic_ns

import pytest
import uvloop
from relay.raw import client, proxy, until, upstream

from shadow.steering.told import Told

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GONE = (ConnectionError, EOFError, RuntimeError)
"""How a peer that left shows on uvloop."""
ARMS: dict[str, dict[str, object]] = {
    "late": {"sample": 0.5, "start": "after_primary", "params": {"set": {"x.b": 1}}},
    "control": {
        "role": "control",
        "sample": 0.7,
        "key": "conversation",
        "amplify": 3,
        "concurrency": 20,
        "deadline": "0.05s",
    },
    "models": {
        "sample": 0.9,
        "key": "header:x-u",
        "models": {"m": "m2"},
        "breaker": {"failures": 3, "open": "0.1s"},
        "limits": {"requests_per_s": 100},
    },
}


def engine(chance: random.Random):
    """Answers whole, in chunks, with a reset, or by closing."""

    async def answered(connection) -> None:
        while True:
            await connection.request()
            await asyncio.sleep(chance.random() * 0.02)
            drawn = chance.random()
            if drawn < 0.1:
                connection.reset()
                return
            if drawn < 0.15:
                return
            if drawn < 0.5:
                await connection.write(OK)
            else:
                await chunks(connection)

    async def chunks(connection) -> None:
        await connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(chance.randint(1, 5)):
            await connection.write(b"4\r\ndata\r\n")
            await asyncio.sleep(chance.random() * 0.01)
        await connection.write(b"0\r\n\r\n")

    async def script(connection) -> None:
        with suppress(*GONE):
            await answered(connection)

    return script


def drawn_request(chance: random.Random) -> bytes:
    """Of known and unknown models, small and large, stateful, steering, coded, broken, opted out."""
    said = {
        "model": chance.choice("mz"),
        "messages": [
            {"role": "user", "content": chance.choice("abc") * chance.choice([1, 40_000])}
        ],
        "x": {},
        **({"store": True} if chance.random() < 0.1 else {}),
        **({"priority": 1} if chance.random() < 0.2 else {}),
    }
    body, fields = json.dumps(said).encode(), b""
    if chance.random() < 0.2:
        body, fields = gzip.compress(body), b"content-encoding: gzip\r\n"
    if chance.random() < 0.1:
        body = body[:-3]
    if chance.random() < 0.7:
        fields += b"x-u: %d\r\n" % chance.randint(0, 5)
    if chance.random() < 0.1:
        fields += chance.choice([b"x-shadow: off\r\n", b"x-t: bad\r\n"])
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n%bContent-Length: %d\r\n\r\n"
    return head % (fields, len(body)) + body


async def use(port: int, chance: random.Random) -> None:
    """One request of a client that sends in two parts, and may leave at any moment."""
    whole = drawn_request(chance)
    at = chance.randint(1, len(whole) - 1)
    left = chance.random()
    async with client(port) as user:
        await user.write(whole[:at])
        await asyncio.sleep(chance.random() * 0.02)
        if left < 0.15:
            return
        await user.write(whole[at:])
        if left > 0.3:
            await user.some()


async def steer(mirror, chance: random.Random) -> None:
    """Pauses, rates, ends and the kill switch, all the time."""
    while True:
        await asyncio.sleep(chance.random() * 0.1)
        rates = {name: chance.choice([0.0, 0.1, 0.5, 1.0]) for name in ARMS}
        mirror.switch.hear(Told(paused=chance.random() < 0.3, rates=rates))
        mirror.switch.killed = "drawn" if chance.random() < 0.1 else ""
        mirror.tick(monotonic_ns())


@pytest.mark.parametrize("seed", range(4))
def test_the_books_balance(seed):
    """Every equation holds for every arm, and neither a byte nor a token is left."""

    async def all_at_once() -> None:
        chance = random.Random(seed)
        async with AsyncExitStack() as stack:
            primary = await stack.enter_async_context(upstream(engine(chance)))
            arms = {}
            for name, arm in ARMS.items():
                side = await stack.enter_async_context(upstream(engine(chance)))
                arms[name] = {"url": side.url, **arm}
            tenants = {"header": "x-t", "deny": ["bad"], "missing": "allow"}
            stage = await stack.enter_async_context(
                proxy(primary.url, arms, greedy_probe=0.5, tenants=tenants)
            )
            mirror = stage.proxy.mirror
            steering = asyncio.ensure_future(steer(mirror, chance))

            async def user(number: int) -> None:
                mine = random.Random(seed * 1000 + number)
                for _ in range(12):
                    with suppress(*GONE):
                        await use(stage.port, mine)

            await asyncio.gather(*(user(number) for number in range(20)))
            steering.cancel()
            await until(lambda: not stage.ledger.held)
            assert all(stage.ledger.balanced(name) for name in ("primary", *ARMS))
            assert stage.ledger.counts["control", "captured", ""]
            assert mirror.held.open_bytes == 0

    uvloop.run(asyncio.wait_for(all_at_once(), 30))
