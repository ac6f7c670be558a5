"""Isolation: windows that everybody agrees on, a pause where mirroring is the cause and nowhere else."""

from __future__ import annotations

import asyncio
import statistics
import time

import pytest
import uvloop

from shadow.config.lifecycle import AFTER_S, Isolation
from shadow.steering.guard import MOST_PAUSE_S, PAUSE_S, Guard
from shadow.steering.lag import Lag, Watch
from shadow.steering.switch import Switch
from shadow.steering.windows import Windows

LIMIT_NS = 2_000_000
QUIET = [100_000] * 20
STALLED = [100_000] * 14 + [4_900_000, 4_000_000, 3_000_000, 2_500_000, 1_000_000, 500_000]
"""A second in which a random moment waits for more than 2 ms once in five times."""


def windows(experiment: str = "e") -> Windows:
    said = Isolation()
    return Windows(experiment, said.period_s, said.window.least, said.window.most)


def test_windows_take_their_share_of_the_time():
    """5 % of the time over a month, each of 10 to 30 s, one in each stretch of 400 s."""
    found = [windows().of(n) for n in range(6480)]
    lengths = [end - start for start, end in found]
    assert 10 <= min(lengths) < 11
    assert 29 < max(lengths) <= 30
    assert sum(lengths) / (6480 * 400) == pytest.approx(0.05, rel=0.02)
    assert all(400 * n <= start and end <= 400 * (n + 1) for n, (start, end) in enumerate(found))


def test_windows_are_anywhere_in_their_stretch():
    """Their places are spread evenly: a load that follows the clock does not hide from them."""
    places = [windows().of(n)[0] % 400 for n in range(2000)]
    assert statistics.mean(places) == pytest.approx(190, rel=0.05)
    assert min(places) < 5
    assert max(places) > 360


def test_windows_are_everyone_s():
    """Another process, worker or host has the same; another experiment has its own."""
    assert [windows().of(n) for n in range(50)] == [windows().of(n) for n in range(50)]
    assert windows("f").of(4_500_000) != windows("e").of(4_500_000)
    start, end = windows().of(4_500_000)
    assert windows().since(start - 0.001) is None
    assert windows().since(start + 1.5) == pytest.approx(1.5)
    assert windows().since(end) is None


def test_a_quantile_of_the_lag():
    """By rank, over the newest seconds alone; nothing known is no lag."""
    lag = Lag(2)
    assert lag.quantile(0.99) == 0
    for second in ([9] * 100, [1] * 99 + [7], [2] * 98 + [5, 5]):
        lag.add(second)
    assert lag.quantile(0.99) == 5
    assert lag.quantile(0.5) == 2


class Loop:
    """A guard's seconds, driven: what happens while mirroring is on, and while it is off."""

    def __init__(self) -> None:
        self.guard, self.now_s = Guard(LIMIT_NS), 1000.0

    def second(
        self, on: list[int], off: list[int], *, window: bool = False, copies: int = 0
    ) -> None:
        mirrors = not (window or self.guard.holds)
        self.now_s += 1
        self.guard.second(self.now_s, on if mirrors else off, on=mirrors, open_copies=copies)

    def until_paused(self, on: list[int], off: list[int], most_s: int, copies: int = 0) -> float:
        began = self.now_s
        for _ in range(most_s):
            self.second(on, off, copies=copies)
            if self.guard.paused:
                return self.now_s - began
        return float("inf")


def test_stalls_while_mirroring_pause_it_within_thirty_seconds():
    """Stalls with it and none without: it pauses, after one probe."""
    loop = Loop()
    assert loop.until_paused(STALLED, QUIET, 30) <= 30
    assert (loop.guard.pauses_total, loop.guard.probes_total) == (1, 1)


def test_stalls_always_do_not():
    """An hour of stalls with it and without: never paused; probed ever more seldom."""
    loop = Loop()
    assert loop.until_paused(STALLED, STALLED, 3600) == float("inf")
    assert 2 <= loop.guard.probes_total <= 12


def test_no_stalls_no_probe():
    """A quiet loop costs no request its copy."""
    loop = Loop()
    assert loop.until_paused(QUIET, QUIET, 3600) == float("inf")
    assert loop.guard.probes_total == 0


def test_a_window_serves_as_a_probe():
    """Where a shadow-off window comes when it suspects, it needs no probe of its own."""
    loop = Loop()
    for _ in range(9):
        loop.second(STALLED, QUIET)
    for _ in range(2):  # the tenth second makes it suspect; the window begins at once
        loop.second(STALLED, QUIET, window=loop.guard.holds)
    for _ in range(6):
        loop.second(STALLED, QUIET, window=True)
    assert loop.guard.paused


def test_an_earlier_quiet_window_proves_nothing():
    """Stalls that began after a quiet window, with mirroring or without: not blamed on it."""
    loop = Loop()
    for _ in range(10):
        loop.second(QUIET, QUIET, window=True)
    assert loop.until_paused(STALLED, STALLED, 60) == float("inf")


def test_a_probe_waits_for_copies_that_are_still_open():
    """What runs on may be what stalls: the probe goes on up to 15 s, and no longer."""
    loop = Loop()
    while not loop.guard.holds:
        loop.second(STALLED, STALLED, copies=5)
    for _ in range(8):
        loop.second(STALLED, STALLED, copies=5)
    assert loop.guard.holds
    for _ in range(6):
        loop.second(STALLED, QUIET, copies=0)
    assert loop.guard.paused


def test_it_resumes_by_itself_and_waits_longer_each_time():
    """A minute, two, four … an hour at most; a cause that has gone leaves it on."""
    loop, lengths = Loop(), []
    for _ in range(8):
        assert loop.until_paused(STALLED, QUIET, 60) < 60
        began = loop.now_s
        while loop.guard.paused:
            loop.second(STALLED, QUIET)
        lengths.append(loop.now_s - began)
    assert lengths[:3] == [PAUSE_S, 2 * PAUSE_S, 4 * PAUSE_S]
    assert lengths[-1] == MOST_PAUSE_S
    for _ in range(700):
        loop.second(QUIET, QUIET)
    assert not loop.guard.holds
    assert loop.until_paused(STALLED, QUIET, 60) < 60
    began = loop.now_s
    while loop.guard.paused:
        loop.second(STALLED, QUIET)
    assert loop.now_s - began == PAUSE_S


def test_a_block_of_the_loop_counts_for_all_it_held_up():
    """One stall of 400 ms is the lag of every moment in it, not of one tick."""

    async def stalled() -> list[int]:
        watch = Watch(asyncio.get_running_loop())
        await asyncio.sleep(0.12)
        watch.take()
        time.sleep(0.4)  # noqa: ASYNC251 the stall
        await asyncio.sleep(0.06)
        watch.stop()
        return watch.take()

    late = uvloop.run(stalled())
    assert sum(one > 50_000_000 for one in late) >= 5


def test_a_real_loop_that_stalls_while_mirroring_pauses(monkeypatch):
    """The whole of it on a loop, with seconds of 20 ms: stalls of 60 ms only while it mirrors."""
    assert asyncio.run(_stalls(monkeypatch, always=False)) == ("lag", 1)


def test_a_real_loop_that_always_stalls_does_not(monkeypatch):
    """The same stalls with mirroring on and off."""
    assert asyncio.run(_stalls(monkeypatch, always=True))[1] == 0


async def _stalls(monkeypatch, *, always: bool) -> tuple[str, int]:
    monkeypatch.setattr("shadow.steering.lag.TICK_S", 0.01)
    monkeypatch.setattr("shadow.steering.lag._TICK_NS", 10_000_000)
    monkeypatch.setattr("shadow.steering.switch._SECOND_NS", 100_000_000)
    switch = Switch("e", "c", ["fp8"], Isolation(pause_lag="30ms"))
    end = time.monotonic() + 4
    while time.monotonic() < end and not (switch.guard and switch.guard.paused):
        switch.tick(time.monotonic_ns(), WITHOUT_WINDOW_S, 0)
        if always or not switch.skip:
            time.sleep(0.06)  # noqa: ASYNC251 the stall
        await asyncio.sleep(0.02)
    switch.tick(time.monotonic_ns(), WITHOUT_WINDOW_S, 0)
    assert switch.guard is not None
    switch.close()
    return switch.skip, switch.guard.pauses_total


WITHOUT_WINDOW_S = windows().of(10)[1] + AFTER_S
