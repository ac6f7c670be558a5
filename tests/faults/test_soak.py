"""All faults at once, for as long as one likes: `make soak MINUTES=10`."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest
from faults.engines import good, half, never, refuses, resets, upstream
from faults.rig import Proxy, books, drive, in_time, running
from relay.raw import black_hole

pytestmark = pytest.mark.alone

MINUTES = float(os.environ.get("SHADOW_SOAK_MINUTES", "0"))
ROUND = 2_000
"""Requests between two looks at the process."""
MUST = {
    "mute": {"timed_out"},
    "slow": {"complete"},
    "rude": {"reset"},
    "failing": {"complete"},
    "gone": {"connect_failed"},
    "well": {"complete"},
}
"""The words that each arm's records must have among them, after a breaker has its say."""


@pytest.mark.skipif(not MINUTES, reason="minutes long: make soak MINUTES=10")
def test_a_day_among_bad_neighbours(tmp_path: Path) -> None:
    """Six arms, five of them unwell: the clients' bytes and times, memory, files, threads and tasks
    stay, and the books agree with what each arm and the primary counted themselves.
    """
    asyncio.run(_soak(tmp_path))


async def _soak(tmp_path: Path) -> None:
    async with (
        upstream(good()) as primary,
        upstream(good()) as beside,
        upstream(good()) as well,
        upstream(never) as mute,
        upstream(half(4, 0.007)) as slow,
        upstream(resets) as rude,
        upstream(refuses) as failing,
        black_hole() as gone,
    ):
        bounded = {"deadline": "1s", "concurrency": 50, "connect_timeout": "500ms"}
        named = {"mute": mute, "slow": slow, "rude": rude, "failing": failing, "gone": gone}
        arms = {name: {"url": arm.url, **bounded} for name, arm in named.items()}
        arms["well"] = {"url": well.url}
        async with running(tmp_path, primary.url, arms, beside=beside.url) as (tested, plain):
            before = await tested.rest()
            asked, looks = await _rounds(tested, plain)
            await tested.rest(before)
        assert primary.requests == beside.requests == asked
    said = books(tmp_path / "tested")
    for arm in ("primary", *arms):
        said.balance(arm)
        assert said.total(arm, "eligible") == said.total(arm, "sampled") == asked
    for name, arm in (named | {"well": well}).items():
        # what the deadline cut it may not have read, on a machine that stalls: one in twenty
        unread = said.reached(name) - arm.requests
        assert 0 <= unread <= said.exchanges[name, "timed_out"] / 20, name
        assert MUST[name] <= {word for each, word in said.exchanges if each == name}
    assert said.reached("gone") == gone.requests == 0
    assert said.reached("well") == said.exchanges["well", "complete"] == well.requests == asked
    assert said.stored("primary") == said.exchanges["primary", "complete"] == asked
    _flat(looks)


async def _rounds(tested: Proxy, plain: Proxy) -> tuple[int, list[float]]:
    """How many were asked, and MB after each round."""
    end = time.monotonic() + 60 * MINUTES
    asked, looks = 0, []
    while time.monotonic() < end or len(looks) < 4:
        load = await in_time(lambda: drive(tested, plain, ROUND, 16))
        asked += len(load.with_arms_s)
        looks.append(tested.rss_mb())
    return asked, looks


def _flat(looks: list[float]) -> None:
    """The second half is no larger than the first, but for noise."""
    half_way = len(looks) // 2
    assert max(looks[half_way:]) < max(looks[:half_way]) + 16, looks
