"""Both ends of the benchmark, straight on each other: nothing is lost or invented by them."""

import asyncio
import json
from urllib.request import urlopen

import pytest

from bench.load import paced, streams
from bench.upstream import Answering, Counts


async def against_upstream(load):
    counts = Counts()
    server = await asyncio.get_running_loop().create_server(
        lambda: Answering(counts), "127.0.0.1", 0
    )
    async with server:
        port = server.sockets[0].getsockname()[1]
        figures = await load(port)
        told = await asyncio.to_thread(
            lambda: json.load(urlopen(f"http://127.0.0.1:{port}/counts"))
        )
    return figures, told


def test_every_event_is_read_and_its_delay_known():
    """3 streams of 5 events: 15 delays, none negative, and no stream stays open."""
    figures, counts = asyncio.run(against_upstream(lambda port: streams(port, 3, 5, 2)))
    assert (figures["requests"], figures["events"]) == (3, 15)
    assert counts == {"requests": 3, "events": 15, "open": 0}
    assert 0 <= figures["delay_p50_ms"] <= figures["delay_p99_ms"]


def test_a_fixed_rate_sends_what_is_due():
    """A fifth of a second at 100 a second is 20 requests, all answered."""
    figures, counts = asyncio.run(against_upstream(lambda port: paced(port, 100, 0.2)))
    assert (figures["requests"], figures["answers"], counts["requests"]) == (20, 20, 20)


def test_answers_that_do_not_come_fail_the_load():
    """A server that says nothing is no fast server."""

    async def silent(port_of):
        server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
        async with server:
            await port_of(server.sockets[0].getsockname()[1])

    with pytest.raises(RuntimeError, match="10 events were due, 0 came"):
        asyncio.run(silent(lambda port: streams(port, 2, 5, 1)))
