"""Isolation at its defaults, in a real proxy under real traffic: paused where mirroring stalls the
loop for 5 ms at a time, and nowhere else."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop
from relay.raw import Stage, proxy

from shadow.config.lifecycle import Isolation
from shadow.steering.windows import Windows

STALL_S = 0.005
TRAFFIC = Path(__file__).with_name("traffic.py")


@asynccontextmanager
async def traffic(a_second: int, streams: int) -> AsyncIterator[Stage]:
    """A proxy of one candidate; another process is its upstreams and its clients."""
    command = (sys.executable, str(TRAFFIC), str(a_second), str(streams), "1")
    other = await asyncio.create_subprocess_exec(*command, stdin=-1, stdout=-1)
    try:
        assert other.stdout is not None
        assert other.stdin is not None
        url = f"http://127.0.0.1:{int(await other.stdout.readline())}"
        async with proxy(url, {"fp8": url}, isolation="on", experiment=without_window()) as stage:
            other.stdin.write(f"{stage.port}\n".encode())
            yield stage
            other.stdin.close()
            await other.wait()
    finally:
        if other.returncode is None:
            other.kill()
            await other.wait()


def without_window(for_s: float = 60.0) -> str:
    """An experiment whose next shadow-off window is not due for a while."""
    said, now_s = Isolation(), time.time()
    for n in range(10_000):
        all_of_them = Windows(f"e{n}", said.period_s, said.window.least, said.window.most)
        if not any(all_of_them.since(now_s + s) for s in range(int(for_s))):
            return f"e{n}"
    raise AssertionError


async def until_paused(stage: Stage, most_s: float) -> float:
    """Seconds; inf: it did not."""
    guard, began = stage.proxy.mirror.switch.guard, time.monotonic()
    assert guard is not None
    while (gone_s := time.monotonic() - began) < most_s:
        if guard.paused:
            return gone_s
        await asyncio.sleep(0.05)
    return float("inf")


@pytest.mark.whole
@pytest.mark.parametrize(("a_second", "streams"), [(150, 4), (40, 0)])
def test_stalls_of_5_ms_only_while_mirroring_trip_it_within_30_s(a_second, streams):
    """Each copy stalls the loop as it starts: a hundred and fifty a second with streams, and forty."""

    async def run() -> float:
        async with traffic(a_second, streams) as stage:
            arm = stage.proxy.mirror.arms[0]
            start = arm.start

            def stalling(*given):
                time.sleep(STALL_S)
                return start(*given)

            arm.start = stalling
            return await until_paused(stage, 30)

    assert uvloop.run(run()) <= 30


@pytest.mark.whole
def test_stalls_of_5_ms_always_do_not():
    """Twenty a second for 100 s, whether it mirrors or not: looked into, and not paused."""

    async def stall() -> None:
        while True:
            time.sleep(STALL_S)  # noqa: ASYNC251 the stall
            await asyncio.sleep(0.045)

    async def run() -> tuple[float, int]:
        async with traffic(150, 4) as stage:
            stalling = asyncio.ensure_future(stall())
            paused_s = await until_paused(stage, 100)
            stalling.cancel()
            guard = stage.proxy.mirror.switch.guard
            assert guard is not None
            return paused_s, guard.probes_total

    paused_s, probes = uvloop.run(run())
    assert paused_s == float("inf")
    assert probes >= 1
