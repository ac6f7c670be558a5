"""The client counts what happened to each request, and keeps its pace whatever the server does."""

import asyncio
import contextlib
import time

import pytest
from aiohttp import web

from shadow.demo.load import due_s, send
from shadow.demo.prompts import body, chats
from shadow.engine_sim.engine import app
from shadow.engine_sim.settings import Settings

QUICK = {"ttft_ms": 1, "itl_ms": 1, "tokens": 5}


@contextlib.asynccontextmanager
async def engine(**settings):
    runner = web.AppRunner(
        app(Settings(**{**QUICK, **settings})), handler_cancellation=True, shutdown_timeout=0.05
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1/chat/completions"
    finally:
        await runner.cleanup()


def bodies(count, *, stream=True):
    return [body(messages, "sim", stream=stream) for messages in chats(1, count)]


def totals(count=6, *, stream=True, timeout_s=5.0, **settings):
    async def run():
        async with engine(**settings) as url:
            return await send(url, bodies(count, stream=stream), [0.0] * count, timeout_s=timeout_s)

    return asyncio.run(run())


def test_due_times_are_even():
    """A request in each slot: any second of the run has the rate's number, give or take one."""
    due = due_s(1400, 62, seed=1)
    assert due == sorted(due)
    assert due[0] >= 0
    assert due[-1] < 62
    assert all(21 <= sum(s <= d < s + 1 for d in due) <= 25 for s in range(61))


@pytest.mark.parametrize("stream", [True, False])
def test_sound_answers(stream):
    """All answered, streamed or not, read to the last byte."""
    seen = totals(stream=stream)
    assert (seen.sent, seen.answered, seen.failures) == (6, 6, {})
    assert seen.answer_bytes > 6 * 100


@pytest.mark.parametrize(
    ("fault", "stream", "word"),
    [
        ("http_500", True, "status 500"),
        ("http_429", False, "status 429"),
        ("truncate", True, "truncated"),
        ("truncate", False, "truncated"),
        ("reset", True, "truncated"),
        ("hang", True, "timed out"),
        ("hang", False, "timed out"),
    ],
)
def test_each_failure_is_named_and_counted(fault, stream, word):
    """sent = answered + failures, by name."""
    seen = totals(stream=stream, timeout_s=0.4, **{f"fault_{fault}": 1.0})
    assert (seen.sent, seen.answered) == (6, 0)
    assert set(seen.failures) <= {word, "reset"}
    assert sum(seen.failures.values()) == 6


def test_nobody_there():
    """A refused connection is a failure as well, not an exception."""
    seen = asyncio.run(send("http://127.0.0.1:9/v1/chat/completions", bodies(2), [0, 0]))
    assert seen.failures == {"not connected": 2}


def test_a_slow_server_does_not_slow_the_pace():
    """Open loop: 20 requests leave within their half second though each answer takes a second."""

    async def run():
        async with engine(ttft_ms=1000, ttft_sigma=0) as url:
            began = time.monotonic()
            seen = await send(url, bodies(20), due_s(20, 0.5, 1))
            return seen, time.monotonic() - began

    seen, took = asyncio.run(run())
    assert seen.answered == 20
    assert took < 2.5


def test_at_once_bounds_what_is_open():
    """With one at a time, four answers of 100 ms take their sum."""

    async def run():
        async with engine(ttft_ms=100, ttft_sigma=0) as url:
            return await send(url, bodies(4), [0.0] * 4, at_once=1)

    assert asyncio.run(run()).seconds > 0.4


def test_progress_is_told_once_a_request():
    """Also for those that failed."""
    ticks = []

    async def run():
        async with engine(fault_http_500=0.5) as url:
            await send(url, bodies(10), [0.0] * 10, answered=lambda: ticks.append(1))

    asyncio.run(run())
    assert len(ticks) == 10
