"""Production is never hurt, whatever an arm does: each fault beside a real proxy process.

Every scenario holds: the clients' bytes are those of the primary; an answer is whole about as soon
as through a proxy without arms, asked in the same seconds; memory does not grow, files, threads
and tasks go back to where they were; the books balance, hold the words that the fault must leave
and no other, and agree with what primary and arms counted themselves. `SHADOW_SOAK=1` (make soak)
runs each at the length at which leaks show; test_leaks.py sees small ones at once.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest
from faults.cases import BREAKER_OFF, FAULTS, Fault
from faults.engines import Upstream, good, upstream
from faults.rig import Books, Load, Proxy, books, crowd, drive, in_time, running

pytestmark = pytest.mark.alone

SOAK = bool(os.environ.get("SHADOW_SOAK"))


CROWD_LATER_S = 0.5
"""By how much the 95th percentile of 300 streams that begin at once may be later beside two arms."""
STREAM_KB = 64.0
"""What a stream and its two copies may hold, open."""


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if SOAK or fault.requests])
def test_an_arm_s_fault_is_not_the_clients(name: str, tmp_path: Path) -> None:
    """Bytes, times, memory, files and books, with one arm that does this and one that is well."""
    asyncio.run(_hold(FAULTS[name], tmp_path))


async def _hold(fault: Fault, tmp_path: Path) -> None:
    answers = good(fault.events, fault.event_bytes)
    async with (
        upstream(answers) as primary,
        upstream(answers) as beside,
        fault.arm() as bad,
        upstream(answers) as well,
    ):
        arms = {"bad": {"url": bad.url, **BREAKER_OFF, **fault.settings}, "well": {"url": well.url}}
        async with running(
            tmp_path, primary.url, arms, beside=beside.url, watched=fault.held_ms is not None
        ) as (tested, plain):
            before, began = await tested.rest(), time.monotonic()
            warm = await _drive(fault, tested, plain, 2 * fault.at_once)
            served = bad.answered
            requests = fault.soak if SOAK else fault.requests
            load = await in_time(
                lambda: _drive(fault, tested, plain, requests),
                lambda: _drive(fault, tested, plain, fault.requests or requests),
                fault.later_ms,
            )
            served, ended = bad.answered - served, time.monotonic()
            assert load.grown_mb() < fault.grows_mb, load.rss_mb
            await tested.rest(before)
        if fault.held_ms is not None:
            assert tested.held_ms(began, ended) < fault.held_ms
        everything = warm + load
        assert primary.requests == len(everything.with_arms_s)
        assert beside.requests == len(everything.without_s)
    said = _booked(fault, tmp_path / "tested", len(everything.with_arms_s))
    _their_own_count(said, bad, well)
    if "concurrency" in fault.drops and served:  # it was offered twice what it can serve
        assert len(load.with_arms_s) > 1.7 * served


async def _drive(fault: Fault, tested: Proxy, plain: Proxy, requests: int) -> Load:
    return await drive(
        tested,
        plain,
        requests,
        fault.at_once,
        count=fault.events,
        size=fault.event_bytes,
        pause_s=fault.pause_s,
        plain_every=fault.plain_every if SOAK else 1,
    )


def _booked(fault: Fault, folder: Path, asked: int) -> Books:
    """Balanced; every request is there; the arm's records have the words they must, and no other."""
    said = books(folder)
    assert not said.open_ended
    for arm in ("primary", "bad", "well"):
        said.balance(arm)
        assert said.total(arm, "eligible") == said.total(arm, "sampled") == asked
    for arm in ("primary", "well"):
        assert said.dropped(arm) <= fault.spare
        assert asked >= said.stored(arm) == said.exchanges[arm, "complete"] > asked / 5
    words = {word for arm, word in said.exchanges if arm == "bad"}
    assert fault.must <= words <= fault.must | fault.may
    assert fault.drops <= said.dropped("bad") <= fault.drops | fault.spare
    assert said.exchanges["bad", "breaker_open"] == said.total("bad", "breaker_open")
    return said


def _their_own_count(said: Books, bad: Upstream, well: Upstream) -> None:
    """What was written to an arm is what it read. What the deadline cut it may not have read, on a
    machine that stalls: one in twenty at most.
    """
    assert said.reached("well") == well.requests == well.answered == said.total("well", "sampled")
    unread = said.reached("bad") - bad.requests
    assert 0 <= unread <= said.exchanges["bad", "timed_out"] / 20
    never_there = {"connect_failed", "breaker_open"}
    if {word for arm, word in said.exchanges if arm == "bad"} <= never_there:
        assert said.reached("bad") == bad.requests == 0


def test_two_thousand_streams_at_once(tmp_path: Path) -> None:
    """Each of 2,000 clients gets its stream, whole and its own, all at the same time, mirrored to
    two arms that see as many; beside the same through a proxy without arms.
    """
    asyncio.run(_crowd(tmp_path, 2_000 if SOAK else 300, 2.0 if SOAK else 0.4))


async def _crowd(tmp_path: Path, most: int, gap_s: float) -> None:
    answers = good(5, 0, gap_s)
    async with (
        upstream(answers) as primary,
        upstream(answers) as beside,
        upstream(answers) as one,
        upstream(answers) as two,
    ):
        arms = {
            name: {"url": arm.url, "concurrency": 2 * most}
            for name, arm in (("one", one), ("two", two))
        }
        async with running(tmp_path, primary.url, arms, beside=beside.url) as (tested, plain):
            before, rss_mb = await tested.rest(), tested.rss_mb()
            without = await crowd(plain, most)
            with_arms = await crowd(tested, most)
            added_s = with_arms.whole_s(0.95) - without.whole_s(0.95)
            each_kb = (max(with_arms.rss_mb) - rss_mb) * 1024 / most
            print(f"\n{most} streams: p95 {1e3 * added_s:+.0f} ms, {each_kb:.0f} KB each")  # noqa: T201
            await tested.rest(before)
    for upstreams in (primary, beside, one, two):
        assert upstreams.requests == upstreams.answered == most
        assert upstreams.most_open >= 0.95 * most
    assert added_s < CROWD_LATER_S * most / 300
    assert each_kb < STREAM_KB
    said = books(tmp_path / "tested")
    for arm in ("primary", "one", "two"):
        said.balance(arm)
        assert said.exchanges[arm, "complete"] == most
        assert not said.dropped(arm)
    assert said.reached("one") == said.reached("two") == most
