"""No broker answers: clients notice nothing, the loop is never held, and every record is somewhere.

sampled = captured + dropped(reason) + pending holds for each arm while it is so and when the
process has ended, and what was captured is what the disk holds then, record by record.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest
from faults.engines import good, nobody, upstream
from faults.rig import Books, Proxy, books, drive, in_time, running

from shadow.publish.accounting import Ledger

pytestmark = pytest.mark.alone

SOAK = bool(os.environ.get("SHADOW_SOAK"))
REQUESTS = 6_000 if SOAK else 300
LAST = 50
ARMS = "primary", "well"
RETRIES_FILES = 16
"""What attempts to connect hold until they are collected as garbage."""
HELD_MS = 10.0
"""For how long the loop may be held."""


@pytest.mark.parametrize(
    ("spill_bytes", "reasons"),
    [("64MiB", set()), ("256KiB", {"log_full"})],
    ids=["the disk has room", "the disk has an end"],
)
def test_the_stream_away(spill_bytes: str, reasons: set[str], tmp_path: Path) -> None:
    """What fits is on the disk, what does not is counted, while it is so and at the end."""
    requests, during, held_ms = asyncio.run(_away(spill_bytes, tmp_path))
    said = books(tmp_path / "tested", tmp_path / "spill" / "0")
    at_the_end = _last_counts(tmp_path / "tested" / "state") if said.open_ended else said
    for arm in ARMS:
        for counted, asked in ((during, requests), (at_the_end, requests + LAST)):
            assert counted.total(arm, "sampled") == asked
            assert counted.total(arm, "captured") + counted.total(arm, "dropped") == asked
        assert at_the_end.total(arm, "captured") == said.stored(arm) > 0
        assert reasons <= at_the_end.dropped(arm) <= reasons | {"queue_full"}
    assert held_ms < HELD_MS


async def _away(spill_bytes: str, tmp_path: Path) -> tuple[int, Books, float]:
    """How many were asked; what /metrics said with the broker still away; the loop's holds."""
    async with (
        nobody() as broker,
        upstream(good()) as primary,
        upstream(good()) as beside,
        upstream(good()) as well,
    ):
        kafka = {
            "bootstrap_servers": f"127.0.0.1:{broker.port}",
            "spill": str(tmp_path / "spill"),
            "spill_bytes": spill_bytes,
            "connect_timeout": "1s",
        }
        arms = {"well": {"url": well.url}}
        more = {"stream": {"kafka": kafka}, "limits": {"queue_bytes": "1MiB"}}
        async with running(
            tmp_path, primary.url, arms, beside=beside.url, watched=True, **more
        ) as (tested, plain):
            began = time.monotonic()
            warm = await drive(tested, plain, 100, 16)
            await _spooled(tested)
            before = await tested.rest()
            load = await in_time(lambda: drive(tested, plain, REQUESTS, 16))
            await tested.rest(before._replace(files=before.files + RETRIES_FILES))
            during = Books.of(await asyncio.to_thread(tested.metrics))
            ended = time.monotonic()
            assert load.grown_mb() < 16
            await drive(tested, plain, LAST, 16)  # what the end finds in its hands
        requests = len(warm.with_arms_s) + len(load.with_arms_s)
        assert primary.requests == requests + LAST
        assert well.requests == requests + LAST
    return requests, during, tested.held_ms(began, ended)


async def _spooled(proxy: Proxy) -> None:
    """The broker was waited for, and is known to be away."""
    for _ in range(300):
        if (await asyncio.to_thread(proxy.metrics))["shadow_spooled_records"]:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("nothing waits on the disk")


def _last_counts(state: Path) -> Books:
    """Of a process that could not publish them: what the next one of its place will."""
    ledger, left = Ledger.open(state, "0", "faults", "")
    ledger.close(published=True)
    assert left, "its last counts are neither on the log nor left to the next"
    return Books.counted(left[-1])
