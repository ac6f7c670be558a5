"""Real gateways mirror to the tap: production's answers are the engine's, every copy is a pair."""

from __future__ import annotations

import asyncio
import random

import pytest
from gateways.gateway import envoy, nginx
from relay.raw import Connection, client, in_loop, proxy, until, upstream

from bench.peers import free_ports
from shadow.relay.fields import CHUNKED
from shadow.relay.framing import request_framing

FRONTS = {"envoy": envoy, "nginx": nginx}
COPIES = 60


def measured(head: bytes, body: bytes) -> bytes:
    """The body's length as an answer, its chunks undone."""
    framing = request_framing(CHUNKED if b"chunked" in head else len(body), 65536)
    pieces: list[bytes] = []
    at = 0
    while framing is not None and not framing.done:
        at = framing.feed(body, pieces, at)
    said = b"%d" % sum(map(len, pieces))
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(said) + said


async def engine(connection: Connection) -> None:
    """Production: answers with the length of what it got."""
    while True:
        head, body = await connection.request()
        assert b"x-shadow-arm" not in head
        await connection.write(measured(head, body))


async def replica(connection: Connection) -> None:
    """The other side: the same, and strict about its name."""
    while True:
        head, body = await connection.request()
        if b"\r\nHost: 127.0.0.1:" not in head or b"\r\nx-shadow-arm: " not in head:
            await connection.write(b"HTTP/1.1 421 Misdirected\r\nContent-Length: 0\r\n\r\n")
        else:
            await connection.write(measured(head, body))


def bodies() -> list[bytes]:
    """Of all sizes up to 3 MB, none like another."""
    rng = random.Random(5)
    sizes = [2, 900, 70_000, 1_500_000, 3_000_000, *(rng.randrange(10, 5000) for _ in range(55))]
    return [b'{"n":%d,"p":"%b"}' % (n, b"x" * size) for n, size in enumerate(sizes)]


def request(body: bytes, *, chunked: bool) -> bytes:
    start = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: api.example\r\nAuthorization: Bearer t\r\n"
    )
    if chunked:
        whole = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        return start + b"Transfer-Encoding: chunked\r\n\r\n" + whole
    return start + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def mirrored(front: str, folder) -> None:
    (gateway,) = free_ports(1)
    async with (
        upstream(engine) as production,
        upstream(replica) as baseline,
        upstream(replica) as candidate,
        proxy(baseline.url, {"fp8": candidate.url}, attach="tap") as stage,
    ):
        ports = {10000: gateway, 8000: production.port, 8080: stage.port}
        running = FRONTS[front](folder, "tap", ports)
        await asyncio.to_thread(running.__enter__)
        try:
            async with client(gateway) as user:
                for n, body in enumerate(bodies()):
                    await user.write(request(body, chunked=n % 2 == 1))
                    head, said = await user.request()
                    assert head.startswith(b"HTTP/1.1 200 ")
                    assert said == b"%d" % len(body)
            await until(lambda: stage.totals.requests == COPIES)
            exchanges = await stage.publisher.wait_for(2 * COPIES)
        finally:
            await asyncio.to_thread(running.__exit__, None, None, None)
        for arm in ("primary", "fp8"):
            records = [e for e in exchanges if e.arm == arm]
            assert len({e.pair_id for e in records}) == COPIES
            assert {(e.status, e.transport, e.attach) for e in records} == {
                (200, "complete", "tap")
            }
            assert sorted(int(e.body) for e in records) == sorted(map(len, bodies()))
            assert stage.ledger.balanced(arm)
        for side in (baseline, candidate):
            assert not any(b"Bearer t" in c.received for c in side.connections)
            assert not any(b".example" in c.received for c in side.connections)


@pytest.mark.gateway
@pytest.mark.usefixtures("with_envoy")
@in_loop
async def test_envoy_mirrors_to_the_tap(tmp_path):
    """request_mirror_policies: 60 requests of up to 3 MB, with a length or in chunks. Each one's
    answer is the engine's, each one's copy a complete pair; Envoy's `-shadow` goes nowhere."""
    await mirrored("envoy", tmp_path)


@pytest.mark.gateway
@pytest.mark.usefixtures("with_nginx")
@in_loop
async def test_nginx_mirrors_to_the_tap(tmp_path):
    """The same by nginx's sub-requests."""
    await mirrored("nginx", tmp_path)
