"""All faults at once, for as long as one likes: `make soak MINUTES=10`."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest
from faults.engines import black_hole, good, half, never, refuses, resets, upstream
from faults.rig import Load, Proxy, books, drive, running

MINUTES = float(os.environ.get("SHADOW_SOAK_MINUTES", "0"))
ROUND = 2_000
"""Requests between two looks at the process."""


@pytest.mark.skipif(not MINUTES, reason="minutes long: make soak MINUTES=10")
def test_a_day_among_bad_neighbours(tmp_path: Path) -> None:
    """Six arms, five of them unwell: the clients' bytes and times, memory and files stay."""
    asyncio.run(_soak(tmp_path))


async def _soak(tmp_path: Path) -> None:
    async with (
        upstream(good()) as primary,
        upstream(good()) as well,
        upstream(never) as mute,
        upstream(half(4, 0.002)) as slow,
        upstream(resets) as rude,
        upstream(refuses) as failing,
        black_hole() as gone,
    ):
        bounded = {"deadline": "1s", "concurrency": 50, "connect_timeout": "500ms"}
        named = {"mute": mute, "slow": slow, "rude": rude, "failing": failing, "gone": gone}
        arms = {name: {"url": arm.url, **bounded} for name, arm in named.items()}
        arms["well"] = {"url": well.url}
        async with running(tmp_path, primary.url, arms) as (tested, plain):
            looks = await _rounds(tested, plain)
        said = books(tmp_path / "tested")
    for arm in ("primary", *arms):
        said.balance(arm)
    assert said.reached("well") == said.exchanges["well", "complete"] == well.requests
    _flat(looks)


async def _rounds(tested: Proxy, plain: Proxy) -> list[tuple[float, int]]:
    """(MB, files) after each round."""
    end = time.monotonic() + 60 * MINUTES
    looks = []
    while time.monotonic() < end or len(looks) < 4:
        load = await drive(tested, plain, ROUND, 16)
        looks.append((tested.rss_mb(), tested.files()))
        print(_line(load, *looks[-1]), flush=True)  # noqa: T201 what one watches meanwhile
        assert load.added_s(0.5) * 1e3 < 5.0
    return looks


def _line(load: Load, rss_mb: float, files: int) -> str:
    added = ", ".join(f"p{100 * q:g} {1e3 * load.added_s(q):+.1f} ms" for q in (0.5, 0.95, 0.99))
    return f"{ROUND} requests: {added}; {rss_mb:.0f} MB, {files} files"


def _flat(looks: list[tuple[float, int]]) -> None:
    """The second half is no larger than the first, but for noise."""
    half_way = len(looks) // 2
    before, after = looks[:half_way], looks[half_way:]
    assert max(mb for mb, _ in after) < max(mb for mb, _ in before) + 16, looks
    assert max(files for _, files in after) < max(files for _, files in before) + 40, looks
