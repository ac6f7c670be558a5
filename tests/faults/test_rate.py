"""The primary's rate under a fixed load is the same beside arms as without them."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest
from faults.engines import answer_of, good, half, upstream
from faults.rig import Client, Proxy, books, chat, running

pytestmark = pytest.mark.alone

SOAK = bool(os.environ.get("SHADOW_SOAK"))
SECONDS = 300.0 if SOAK else 3.0
CLIENTS = 16
GAP_S = 0.04
"""Five events: an answer takes 0.2 s, so 16 clients ask 80 times a second."""
SHARE = 0.99


def test_the_primary_s_rate_beside_an_arm_at_half_capacity(tmp_path: Path) -> None:
    """16 clients of each proxy at once, each asking again when it was answered, for 5 minutes: the
    rate with an arm that serves half of it is within 1 % of the rate without arms.
    """
    asyncio.run(_scene(tmp_path))


async def _scene(tmp_path: Path) -> None:
    answers = good(gap_s=GAP_S)
    async with (
        upstream(answers) as primary,
        upstream(answers) as beside,
        upstream(half(CLIENTS // 2, GAP_S)) as arm,
    ):
        arms = {"arm": {"url": arm.url, "deadline": "1s", "concurrency": 50, "breaker": "off"}}
        async with running(tmp_path, primary.url, arms, beside=beside.url) as (tested, plain):
            share = await _share(tested, plain)
            if share < SHARE:  # once more: a neighbour's burst may meet one of the two alone
                again = await _share(tested, plain)
                assert again >= SHARE, (share, again)
        assert primary.requests == primary.answered
    said = books(tmp_path / "tested")
    said.balance("arm")
    assert said.total("arm", "dropped") + said.exchanges["arm", "timed_out"] > 0  # it was too slow
    assert primary.requests > 1.7 * said.exchanges["arm", "complete"]


async def _share(tested: Proxy, plain: Proxy) -> float:
    """The rate with arms, as a share of the one without in the same seconds."""
    with_arms, without = await asyncio.gather(_rate(tested), _rate(plain))
    print(f"\n{with_arms:.2f} a second with arms, {without:.2f} without")  # noqa: T201 as in rig
    return with_arms / without


async def _rate(proxy: Proxy) -> float:
    """Answers a second of clients that ask for so long: by what an answer took them all in all, but
    for the slowest 2 of 100, which a busy host makes; test_faults.py bounds the 95th percentile.
    """
    took: list[float] = []
    end = time.monotonic() + SECONDS

    async def client(number: int) -> None:
        mine = Client(proxy.port)
        try:
            while (began := time.monotonic()) < end:
                body = chat(number, 200)
                await mine.ask(body, answer_of(body))
                took.append(time.monotonic() - began)
        finally:
            await mine.close()

    async with asyncio.TaskGroup() as group:
        for number in range(CLIENTS):
            group.create_task(client(number))
    usual = sorted(took)[: -len(took) // 50]
    return CLIENTS * len(usual) / sum(usual)
