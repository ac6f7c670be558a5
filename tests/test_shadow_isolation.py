"""Isolation: windows that everybody agrees on, a pause where mirroring is the cause and nowhere else."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from random import Random

import numpy as np
import pytest
import uvloop

from shadow.config.lifecycle import AFTER_S, Isolation
from shadow.steering import guard as guard_module
from shadow.steering import probe as probe_module
from shadow.steering.evidence import ADDS, BLAMED, CLEARED, LEAST, MOST, weigh
from shadow.steering.guard import AGAIN_S, MOST_AGAIN_S, MOST_PAUSE_S, PAUSE_S, Guard
from shadow.steering.lag import FINE_S, MOST_TICKS, TICK_S, Lag, Span, Watch
from shadow.steering.probe import MOST_LONG_S, MOST_S, SLICE_S, Probe
from shadow.steering.switch import Switch
from shadow.steering.windows import Windows

LIMIT_NS = 2_000_000


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
    """By rank, over the newest seconds alone; nothing known is no lag, and idle time is not known."""
    lag = Lag(2)
    assert lag.quantile(0.99) == 0
    for second in ([9] * 100, [1] * 99 + [7], [2] * 98 + [5, 5], []):
        lag.add(Span(0.0, 1.0, second, on=True, open_copies=0))
    assert lag.quantile(0.99) == 5
    assert lag.quantile(0.5) == 2
    assert lag.share(2) == 3 / 200


# the evidence


Noise = Callable[[np.random.Generator], np.ndarray]
"""The share of late ticks in each slice of a probe, before mirroring adds anything."""
TICKS = round(SLICE_S / FINE_S)


def flat(share: float) -> Noise:
    return lambda _rng: np.full(2 * MOST, share)


def bursts(share: float, begins: float, ends: float) -> Noise:
    """Other processes come and go: a slice begins a burst, and ends it, by chance."""

    def noise(rng: np.random.Generator) -> np.ndarray:
        shares, now = np.full(2 * MOST, 0.003), rng.random() < begins / (begins + ends)
        for slice_, drawn in enumerate(rng.random(2 * MOST)):
            shares[slice_] = share if now else 0.003
            now = drawn >= ends if now else drawn < begins
        return shares

    return noise


NOISES = {
    "quiet": flat(0.003),
    "busy": flat(0.02),
    "stalls always": flat(0.4),
    "short bursts": bursts(0.3, 0.2, 0.6),
    "bursts of seconds": bursts(0.3, 0.05, 0.15),
    "rare bursts": bursts(0.8, 0.03, 0.5),
    "heavy tails": lambda rng: np.minimum(rng.pareto(1.2, 2 * MOST) * 0.01, 1),
}


def probes(noise: Noise, adds: float, n: int) -> list[str]:
    """What n probes find of mirroring that makes `adds` of the moments late."""
    rng = np.random.default_rng(1)
    return [found(noise(rng), adds, rng) for _ in range(n)]


def found(shares: np.ndarray, adds: float, rng: np.random.Generator) -> str:
    pairs = rng.permuted(shares.reshape(MOST, 2), axis=1)  # the drawn order
    on = rng.binomial(TICKS, 1 - (1 - pairs[:, 0]) * (1 - adds)) / TICKS
    added = list(map(float, on - rng.binomial(TICKS, pairs[:, 1]) / TICKS))
    return next(filter(None, (weigh(added[:n]) for n in range(1, MOST + 1))))


@pytest.mark.parametrize("noise", NOISES)
def test_who_adds_nothing_is_blamed_in_four_of_a_thousand_probes_at_most(noise):
    """And who adds just what is allowed, in less than one of a hundred, whatever the noise."""
    assert probes(NOISES[noise], 0, 1000).count("guilty") <= 4
    assert probes(NOISES[noise], ADDS, 500).count("guilty") < 5


def test_a_noise_in_the_slices_own_rhythm_is_the_worst_that_there_is():
    """Every second slice full of it, the others empty: one probe in twelve, for the order is drawn."""
    assert probes(lambda _rng: np.tile([0.3, 0.0], MOST), 0, 600).count("guilty") <= 600 / 12


@pytest.mark.parametrize(
    ("noise", "adds", "at_least"),
    [
        ("quiet", 0.04, 0.98),
        ("busy", 0.04, 0.9),
        ("rare bursts", 0.04, 0.85),
        ("short bursts", 0.3, 0.97),
        ("bursts of seconds", 0.3, 0.97),
        ("heavy tails", 0.3, 0.97),
        ("stalls always", 0.3, 0.97),
    ],
)
def test_who_adds_much_is_found_in_one_probe(noise, adds, at_least):
    """4 % of the moments: thirteen stalls of 5 ms a second; 30 %: a hundred."""
    assert probes(NOISES[noise], adds, 300).count("guilty") >= 300 * at_least


def test_a_quiet_loop_is_cleared_and_a_guilty_one_is_not():
    """What adds nothing is cleared where there is little noise; what adds twice the limit is not."""
    assert probes(NOISES["quiet"], 0, 300).count("cleared") >= 294
    assert probes(NOISES["busy"], 2 * ADDS, 300).count("cleared") <= 6


def test_rare_long_stalls_are_not_cleared():
    """One slice in five with a long one: what the trimmed mean leaves out holds the question open."""
    draw, findings = Random(6), []
    for _ in range(200):
        added = [0.25 if draw.random() < 0.2 else 0.0 for _ in range(MOST)]
        if any(added[:LEAST]):
            findings.append(next(filter(None, (weigh(added[:n]) for n in range(1, MOST + 1)))))
    assert findings.count("cleared") <= 0.02 * len(findings)


def test_the_bounds_are_student_s():
    """As tabled, for each number of pairs."""
    stats = pytest.importorskip("scipy.stats")
    for pairs, blamed, cleared in zip(range(LEAST, MOST + 1), BLAMED, CLEARED, strict=True):
        assert blamed == pytest.approx(stats.t.ppf(0.9995, pairs - 1), abs=0.006)
        assert cleared == pytest.approx(stats.t.ppf(0.975, pairs - 1), abs=0.006)


def test_the_order_of_slices_is_drawn():
    """So a noise that comes with every second slice is blamed on mirroring in few of 200 probes."""
    draw, findings = Random(4), []
    for _ in range(200):
        probe, now_s = Probe(LIMIT_NS, 0.0, draw), 0.0
        while not probe.found:
            late = [3_000_000] * 3 + [0] * 7 if round(now_s * 10) % 10 < 5 else [0] * 10
            now_s += 0.1
            probe.heard(Span(now_s, 0.1, late, on=probe.mirrors, open_copies=0))
        findings.append(probe.found)
    assert findings.count("guilty") <= 24


# the guard


class Loop:
    """A guard's spans of 100 ms, driven: what part of moments is late with mirroring, and without."""

    def __init__(self) -> None:
        self.guard, self.now_s, self.draw = Guard(LIMIT_NS, Random(1)), 1000.0, Random(2)

    def span(
        self, on: float, off: float, *, window: bool = False, copies: int = 0, idle: bool = False
    ) -> None:
        mirrors = not (window or self.guard.holds)
        self.now_s += 0.1
        ticks = round(0.1 / (TICK_S if self.guard.probe is None else FINE_S)) * (not idle)
        share = on if mirrors else off
        late = [3_000_000 if self.draw.random() < share else 100_000 for _ in range(ticks)]
        self.guard.heard(Span(self.now_s, 0.1, late, mirrors, copies))

    def run(self, on: float, off: float, most_s: float, **more) -> float:
        """Seconds until it pauses; inf: not in so many."""
        began = self.now_s
        while self.now_s - began < most_s:
            self.span(on, off, **more)
            if self.guard.paused:
                return self.now_s - began
        return float("inf")

    def pause(self, on: float, off: float) -> float:
        """Seconds until it goes on."""
        began = self.now_s
        while self.guard.paused:
            self.span(on, off)
        return self.now_s - began


@pytest.mark.parametrize(("on", "off"), [(0.05, 0.0), (0.07, 0.01), (0.2, 0.02), (0.6, 0.05)])
def test_stalls_while_mirroring_pause_it_within_thirty_seconds(on, off):
    """Stalls with it and few without: it pauses, after one probe."""
    loop = Loop()
    assert loop.run(on, off, 60) <= 30
    assert (loop.guard.pauses_total, loop.guard.probes_total) == (1, 1)


def test_a_few_late_ticks_without_mirroring_exonerate_nobody():
    """Two late ticks of a hundred without are a p99 above the limit there too; it adds 6 % more."""
    assert Loop().run(0.08, 0.02, 60) <= 30


@pytest.mark.parametrize("share", [0.02, 0.2, 0.5])
def test_stalls_always_do_not(share):
    """An hour of stalls with it and without: never paused; probed ever more seldom."""
    loop = Loop()
    assert loop.run(share, share, 3600) == float("inf")
    assert 2 <= loop.guard.probes_total <= 15


def test_no_stalls_no_probe():
    """A quiet loop costs no request its copy."""
    loop = Loop()
    assert loop.run(0.0, 0.0, 1800) == float("inf")
    assert loop.guard.probes_total == 0


def test_a_burst_of_the_machine_that_ends_is_not_blamed_on_it():
    """Ten seconds of lag, then none: suspected, cleared within seconds, asked no more."""
    loop = Loop()
    while loop.guard.probe is None:
        loop.span(0.3, 0.3)
    assert loop.run(0.0, 0.0, 8) == float("inf")
    assert (loop.guard.probe, loop.guard.probes_total) == (None, 1)


def test_what_was_cleared_is_looked_into_again_where_the_lag_is_twice_as_large():
    """A noisy machine's hours have made looks rare; then mirroring stalls as well: a minute's notice."""
    loop = Loop()
    loop.run(0.03, 0.03, 3600)
    assert loop.guard._again_s == MOST_AGAIN_S
    while loop.guard.probe is not None:
        loop.span(0.03, 0.03)
    assert loop.run(0.3, 0.03, 600) <= AGAIN_S + 30


def test_poor_evidence_is_asked_for_again_soon():
    """Where a probe could not tell, ten seconds pass until the next; where it could, a minute."""
    waits = []
    for finding in ("unclear", "cleared"):
        loop = Loop()
        while loop.guard.probe is None:
            loop.span(0.1, 0.1)
        loop.guard.probe.found = finding
        loop.guard._look(loop.guard.probe, loop.now_s)
        began = loop.now_s
        while loop.guard.probe is None:
            loop.span(0.1, 0.1)
        waits.append(round(loop.now_s - began))
    assert waits == [10, 60]


def test_a_window_ends_a_probe_and_it_is_made_up_for():
    """Who turns mirroring off meanwhile is no witness; after the window it looks anew."""
    loop = Loop()
    while loop.guard.probe is None:
        loop.span(0.2, 0.0)
    for _ in range(200):
        loop.span(0.2, 0.0, window=True)
    assert (loop.guard.probe, loop.guard.paused, loop.guard.probes_total) == (None, False, 1)
    assert loop.run(0.2, 0.0, 20) <= 20


def test_an_earlier_quiet_window_proves_nothing():
    """Stalls that began after a quiet window, with mirroring or without: not blamed on it."""
    loop = Loop()
    for _ in range(100):
        loop.span(0.0, 0.0, window=True)
    assert loop.run(0.3, 0.3, 60) == float("inf")


def test_copies_that_run_on_are_waited_for():
    """Streams that carry the stalls along: short slices see nothing, a long probe pauses it."""
    loop, open_s = Loop(), 0.0
    began = loop.now_s
    while not loop.guard.paused and loop.now_s - began < MOST_S + MOST_LONG_S:
        open_s = max(0.0, open_s - 0.1) if loop.guard.holds else 4.0
        share = 0.1 if open_s else 0.0
        loop.span(share, share, copies=3 if open_s else 0)
    assert loop.guard.paused
    assert loop.now_s - began < 120


def test_copies_that_never_end_hold_nothing_off_for_long():
    """A long probe is over after four minutes, and the next is due ten minutes later."""
    loop = Loop()
    assert loop.run(0.1, 0.1, 3600, copies=3) == float("inf")
    assert loop.guard.probes_total <= 20


def test_a_loop_that_falls_idle_ends_its_probe():
    """Nothing comes, nothing is learnt; mirroring is on for whoever comes then."""
    loop = Loop()
    while loop.guard.probe is None:
        loop.span(0.2, 0.0)
    loop.run(0.2, 0.0, MOST_S + 1, idle=True)
    assert (loop.guard.probe, loop.guard.holds, loop.guard.paused) == (None, False, False)


def test_it_resumes_by_itself_and_waits_longer_each_time():
    """A minute, two, four … an hour at most; a cause that has gone leaves it on."""
    loop, lengths = Loop(), []
    for _ in range(8):
        assert loop.run(0.3, 0.0, 60) < 60
        lengths.append(loop.pause(0.3, 0.0))
    assert lengths[:3] == pytest.approx([PAUSE_S, 2 * PAUSE_S, 4 * PAUSE_S], abs=0.2)
    assert lengths[-1] == pytest.approx(MOST_PAUSE_S, abs=0.2)
    assert loop.run(0.0, 0.0, 700) == float("inf")
    assert loop.run(0.3, 0.0, 60) < 60
    assert loop.pause(0.3, 0.0) == pytest.approx(PAUSE_S, abs=0.2)


# a real loop


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


def test_a_process_that_was_stopped_for_hours_makes_no_million_ticks(monkeypatch):
    """Each tick that could not come is late, up to a number that the loop can sort."""

    async def woken() -> int:
        watch = Watch(asyncio.get_running_loop())
        watch._due_ns -= 8 * 3600 * 10**9
        watch._tick()
        watch.stop()
        return len(watch.take())

    assert uvloop.run(woken()) == 1 + MOST_TICKS


def test_ticks_come_as_finely_as_they_are_asked_for():
    """Twenty a second, and hundreds while a probe looks; no stall of 5 ms falls between those."""

    async def paced() -> tuple[float, int]:
        began = time.monotonic()
        watch = Watch(asyncio.get_running_loop())
        await asyncio.sleep(0.22)
        coarse = len(watch.take()) / (time.monotonic() - began)
        watch.pace(FINE_S)
        for _ in range(10):
            await asyncio.sleep(0.02)
            time.sleep(0.005)  # noqa: ASYNC251 the stall
        await asyncio.sleep(0.01)
        watch.stop()
        return coarse, sum(late > 1_000_000 for late in watch.take())

    coarse, stalls = uvloop.run(paced())
    assert 0 < coarse <= 1 / TICK_S
    assert stalls >= 10


@pytest.mark.alone
def test_a_real_loop_that_stalls_while_mirroring_pauses(monkeypatch):
    """The whole of it on a loop, five times as fast: stalls of 5 ms only while it mirrors."""
    assert uvloop.run(_stalls(monkeypatch, always=False)) == ("lag", 1)


@pytest.mark.alone
def test_a_real_loop_that_always_stalls_does_not(monkeypatch):
    """The same stalls with mirroring on and off."""
    assert uvloop.run(_stalls(monkeypatch, always=True))[1] == 0


async def _stalls(monkeypatch, *, always: bool) -> tuple[str, int]:
    monkeypatch.setattr(guard_module, "ON_S", 1.0)
    monkeypatch.setattr(probe_module, "SLICE_S", 0.1)
    monkeypatch.setattr(probe_module, "SETTLE_S", 0.02)
    switch = Switch("e", "c", ["fp8"], Isolation())
    assert switch.guard is not None
    end = time.monotonic() + (3 if always else 20)  # a bound: it ends when it pauses
    while time.monotonic() < end and not switch.guard.paused:
        switch.tick(time.monotonic_ns(), WITHOUT_WINDOW_S, 0)
        for _ in range(2):
            await asyncio.sleep(0.008)
            if always or not switch.skip:
                time.sleep(0.005)  # noqa: ASYNC251 the stall
    switch.tick(time.monotonic_ns(), WITHOUT_WINDOW_S, 0)
    switch.close()
    return switch.skip, switch.guard.pauses_total


WITHOUT_WINDOW_S = windows().of(10)[1] + AFTER_S
