"""`serve`'s life: signals drain, a second one ends at once; the clock goes on whatever mirror code does."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest
from relay.raw import FakeLedger, FakePublisher, answering, client, in_loop, proxy, until, upstream

from shadow.app import Ports, Proxy, until_signalled
from shadow.config import Config

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
STARTED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"


def settings(url: str, **more) -> Config:
    return Config.model_validate(
        {
            "experiment": "app",
            "listen": "127.0.0.1:0",
            "capture": "full",
            "primary": {"url": url},
            "stream": {"embedded": "x"},
            "store": {"embedded": "y"},
            **more,
        }
    )


async def serving(url: str):
    """A served proxy: (its task, its port)."""
    ledger = FakeLedger()
    running, started = Proxy(settings(url), Ports(ledger, FakePublisher(ledger))), asyncio.Event()
    task = asyncio.ensure_future(until_signalled(running, started))
    await started.wait()
    return task, running.port


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@in_loop
async def test_a_signal_drains(number):
    """The running stream ends whole, then serve returns."""
    gate = asyncio.Event()

    async def script(connection):
        await connection.request()
        await gate.wait()
        await connection.write(OK)

    async with upstream(script) as primary:
        task, port = await serving(primary.url)
        async with client(port) as user:
            await user.write(GET)
            await until(lambda: primary.connections and primary.connections[0].received)
            os.kill(os.getpid(), number)
            await asyncio.sleep(0.02)
            assert not task.done()
            gate.set()
            assert (await user.rest()).endswith(b"Connection: close\r\n\r\nok")
        await asyncio.wait_for(task, 2)


@in_loop
async def test_a_second_signal_ends_at_once():
    """With a stream that never ends."""

    async def script(connection):
        await connection.request()
        await connection.write(STARTED)
        await connection.rest()

    async with upstream(script) as primary:
        task, port = await serving(primary.url)
        async with client(port) as user:
            await user.write(GET)
            await user.exactly(len(STARTED))
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.05)
            assert not task.done()
            begun = time.monotonic()
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(task, 3)
            assert time.monotonic() - begun < 1.5
            with pytest.raises(ConnectionResetError):
                await user.rest()


@in_loop
async def test_without_a_stream_it_is_a_moment():
    """SIGTERM on an idle proxy."""
    async with upstream(answering(OK)) as primary:
        task, _ = await serving(primary.url)
        begun = time.monotonic()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(task, 2)
        assert time.monotonic() - begun < 1


@in_loop
async def test_a_taken_port_is_an_error():
    """Two of them cannot listen on one port, unless they are workers of one proxy."""
    async with upstream(answering(OK)) as primary, proxy(primary.url) as stage:
        taken = {"listen": f"127.0.0.1:{stage.port}"}
        other = Proxy(
            settings(primary.url, **taken), Ports(FakeLedger(), FakePublisher(FakeLedger()))
        )
        with pytest.raises(OSError, match="in use"):
            await other.start()
        await other.drain(0)


@in_loop
async def test_workers_share_the_port():
    """SO_REUSEPORT with more than one worker."""
    async with upstream(answering(OK)) as primary, proxy(primary.url, workers=2) as stage:
        shared = {"listen": f"127.0.0.1:{stage.port}", "workers": 2}
        ledger = FakeLedger()
        other = Proxy(settings(primary.url, **shared), Ports(ledger, FakePublisher(ledger)))
        await other.start()
        assert other.port == stage.port
        await other.drain(0)


@in_loop
async def test_the_clock_survives_mirror_code():
    """An exception at a tick is counted, and the next tick comes."""
    async with upstream(answering(OK)) as primary, proxy(primary.url) as stage:
        stage.proxy.mirror.arms = [None]
        await until(lambda: stage.totals.mirror_errors >= 2)
        stage.proxy.mirror.arms = []
        stage.totals.mirror_errors = 0
