"""Production is never hurt, whatever an arm does: each fault beside a real proxy process.

Every scenario holds: the clients' bytes are those of the primary; an answer is whole about as soon
as through a proxy without arms, asked in the same seconds; memory, files and streams go back to
where they were; the books balance, and against the arm's own count. `SHADOW_SOAK=1` (make soak)
runs each at the length at which leaks show.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from faults.engines import (
    Manner,
    Upstream,
    babbles,
    black_hole,
    good,
    half,
    never,
    nobody,
    refuses,
    resets,
    upstream,
)
from faults.rig import Load, Proxy, books, drive, running

SOAK = bool(os.environ.get("SHADOW_SOAK"))


@dataclass(frozen=True)
class Fault:
    """One way to misbehave, and how it must show in the books."""

    arm: Callable[[], AbstractAsyncContextManager[Upstream]]
    requests: int
    soak: int
    """How many when it is to be seen whether anything grows."""
    words: frozenset[str]
    """The transports that the arm's records may have."""
    settings: dict[str, object] = field(default_factory=dict)
    at_once: int = 16
    events: int = 5
    event_bytes: int = 0
    grows_mb: float = 48.0
    pause_s: float = 0.03
    later_ms: tuple[float, float] = (5.0, 25.0)
    """By how much the median and the 95th percentile may be later, on a machine that is shared."""


def manner(which: Manner) -> Callable[[], AbstractAsyncContextManager[Upstream]]:
    return lambda: upstream(which)


FAULTS = {
    "never answers": Fault(
        manner(never),
        300,
        20_000,
        frozenset({"timed_out"}),
        {"deadline": "1s", "concurrency": 50},
    ),
    "half capacity": Fault(
        manner(half(4, 0.002)),
        400,
        20_000,
        frozenset({"complete", "timed_out"}),
        {"deadline": "2s", "concurrency": 50},
    ),
    "resets in mid-stream": Fault(manner(resets), 300, 20_000, frozenset({"reset"})),
    "status 500 and a long body": Fault(manner(refuses), 300, 10_000, frozenset({"complete"})),
    "no HTTP": Fault(manner(babbles), 300, 10_000, frozenset({"malformed", "reset", "truncated"})),
    "SYN unanswered": Fault(
        black_hole,
        300,
        20_000,
        frozenset({"connect_failed", "timed_out"}),
        {"connect_timeout": "500ms", "deadline": "1s", "concurrency": 50},
    ),
    "connection refused": Fault(nobody, 300, 20_000, frozenset({"connect_failed"})),
    "connection refused, left alone": Fault(
        nobody,
        150,
        20_000,
        frozenset({"connect_failed", "breaker_open"}),
        {"breaker": {"failures": 20, "open": "1s"}},
    ),
    "a name that does not resolve": Fault(
        nobody,  # its URL stands in the settings
        300,
        5_000,
        frozenset({"connect_failed"}),
        {"url": "http://engine.invalid:8000", "connect_timeout": "500ms"},
    ),
    "5 MB answers": Fault(
        manner(good(5, 1_000_000)),
        24,
        2_000,
        frozenset({"complete"}),
        at_once=2,
        events=5,
        event_bytes=1_000_000,
        grows_mb=350.0,  # limits.mirror_bytes and what the allocator keeps
        pause_s=0.2,
        later_ms=(60.0, 150.0),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_an_arm_s_fault_is_not_the_clients(name: str, tmp_path: Path) -> None:
    """Bytes, times, memory, files and books, with one arm that does this and one that is well."""
    fault = FAULTS[name]
    asyncio.run(_hold(fault, tmp_path))


async def _hold(fault: Fault, tmp_path: Path) -> None:
    answers = good(fault.events, fault.event_bytes)
    async with upstream(answers) as primary, fault.arm() as bad, upstream(answers) as well:
        arms = {"bad": {"url": bad.url, **BREAKER_OFF, **fault.settings}, "well": {"url": well.url}}
        async with running(tmp_path, primary.url, arms) as (tested, plain):
            warm = await _drive(fault, tested, plain, 2 * fault.at_once)
            files, rss = tested.files(), tested.rss_mb()
            requests = fault.soak if SOAK else fault.requests
            load = await _drive(fault, tested, plain, requests)
            _in_time(load, *fault.later_ms)
            assert max(load.rss_mb[-3:]) - rss < fault.grows_mb, (rss, load.rss_mb)
            await _quiet(tested, files)
        asked = len(warm.with_arms_s) + len(load.with_arms_s)
        _booked(fault, tmp_path / "tested", asked, bad, well)


BREAKER_OFF: dict[str, object] = {"breaker": "off"}
"""What a fault does when it is met by every request."""


async def _drive(fault: Fault, tested: Proxy, plain: Proxy, requests: int) -> Load:
    return await drive(
        tested,
        plain,
        requests,
        fault.at_once,
        count=fault.events,
        size=fault.event_bytes,
        pause_s=fault.pause_s,
    )


def _in_time(load: Load, half_ms: float = 5.0, most_ms: float = 25.0) -> None:
    """Half of the answers at once, 19 of 20 within what a busy machine does to both."""
    assert load.added_s(0.5) * 1e3 < half_ms, load.added_s(0.5)
    assert load.added_s(0.95) * 1e3 < most_ms, load.added_s(0.95)


async def _quiet(proxy: Proxy, files: int) -> None:
    """Streams, connections and files go back to what they were."""
    for _ in range(300):
        figures = await asyncio.to_thread(proxy.metrics)
        streams = figures["shadow_relay_open_streams"]
        if not streams and not figures["shadow_queue_bytes"] and proxy.files() <= files:
            return
        await asyncio.sleep(0.1)
    raise AssertionError((figures, proxy.files(), files))


def _booked(fault: Fault, folder: Path, asked: int, bad: Upstream, well: Upstream) -> None:
    said = books(folder)
    assert not said.open_ended
    for arm in ("primary", "bad", "well"):
        said.balance(arm)
        assert said.total(arm, "eligible") == asked
    assert said.stored("primary") == said.exchanges["primary", "complete"] == asked
    assert {word for arm, word in said.exchanges if arm == "bad"} <= fault.words
    assert said.reached("well") == said.exchanges["well", "complete"] == well.requests
    if not fault.settings.keys() & {"deadline", "url"}:  # a deadline may cut what was never read
        assert said.reached("bad") == bad.requests


def test_two_thousand_streams_at_once(tmp_path: Path) -> None:
    """Each of 2,000 clients gets its stream, whole and its own, mirrored to two arms."""
    most = 2_000 if SOAK else 300
    slow = Fault(
        manner(good(5, 0, 0.2)), most, most, frozenset({"complete"}), {"concurrency": most}, most
    )

    async def scene() -> None:
        answers = good(5, 0, 0.2)
        async with upstream(answers) as primary, upstream(answers) as one, upstream(answers) as two:
            arms = {
                name: {"url": arm.url, "concurrency": 2 * most}
                for name, arm in (("bad", one), ("well", two))
            }
            async with running(tmp_path, primary.url, arms) as (tested, plain):
                files = tested.files()
                load = await _drive(slow, tested, plain, most)
                assert load.added_s(0.5) < 1.0
                await _quiet(tested, files + 300)  # idle connections to the upstreams stay a while
            said = books(tmp_path / "tested")
            for arm, upstreams in (("bad", one), ("well", two)):
                said.balance(arm)
                assert said.reached(arm) == said.exchanges[arm, "complete"] == upstreams.requests

    asyncio.run(scene())


def test_the_stream_away(tmp_path: Path) -> None:
    """No broker answers, the queue and the disk have an end: clients notice nothing, all is counted."""

    async def scene() -> None:
        async with nobody() as broker, upstream(good()) as primary, upstream(good()) as well:
            kafka = {
                "bootstrap_servers": f"127.0.0.1:{broker.port}",
                "spill": str(tmp_path / "spill"),
                "spill_bytes": "1MiB",
                "connect_timeout": "1s",
            }
            arms = {"well": {"url": well.url}}
            more = {"stream": {"kafka": kafka}, "limits": {"queue_bytes": "256KiB"}}
            async with running(tmp_path, primary.url, arms, **more) as (tested, plain):
                load = await drive(tested, plain, 6_000 if SOAK else 600, 16)
                _in_time(load)
                figures = await asyncio.to_thread(tested.metrics)
                sampled = figures['shadow_sampled_total{arm="well"}']
                assert sampled == len(load.with_arms_s)
                while not figures["shadow_spooled_records"]:  # once the broker was waited for
                    await asyncio.sleep(0.2)
                    figures = await asyncio.to_thread(tested.metrics)
                dropped = sum(n for name, n in figures.items() if "shadow_dropped_total" in name)
                held = figures["shadow_spooled_records"] + dropped
                assert 0 < held <= 2 * sampled + 60  # the accounting of each second waits too

    asyncio.run(scene())
