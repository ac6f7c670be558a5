"""Isolation: seconds without mirroring, by which its cost is seen, and its pause where it hurts.

`Windows` says when nothing is mirrored: a function of the experiment's name and the clock, so that
all workers and hosts agree. `Guard` compares the loop's lag with mirroring on and off. Both are
pure. `Watch` measures the lag: how late a timer comes.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from hashlib import blake2b
from itertools import chain
from time import monotonic_ns
from typing import Final

TICK_S: Final = 0.05
"""Twenty a second: a hundred cost 0.3 % of a core, these under 0.1 %."""
_TICK_NS: Final = int(TICK_S * 1e9)
ON_SECONDS: Final = 10
OFF_SECONDS: Final = 5
PROBE_S: Final = 15.0
"""How long a forced probe may last while copies that were open before it still run."""
AGAIN_S: Final = 60.0
MOST_AGAIN_S: Final = 600.0
"""A probe that found the lag without mirroring too is tried again after this, ever later."""
PAUSE_S: Final = 60.0
MOST_PAUSE_S: Final = 3600.0
CALM_S: Final = 600.0
"""After so long without a pause the next one is a first one again."""


class Windows:
    """Shadow-off windows: one in each period, at a random place, of a random length."""

    __slots__ = ("_keyed", "_least_s", "_most_s", "_period_s")

    def __init__(self, experiment: str, period_s: float, least_s: float, most_s: float) -> None:
        self._keyed = blake2b(digest_size=16, key=experiment.encode()[:64], person=b"shadow-off")
        self._period_s, self._least_s, self._most_s = period_s, least_s, most_s

    def of(self, period: int) -> tuple[float, float]:
        """(start, end) of the n-th period's window, s since 1970."""
        drawn = self._keyed.copy()
        drawn.update(str(period).encode())
        digest = drawn.digest()
        where, how = (int.from_bytes(half) / 2**64 for half in (digest[:8], digest[8:]))
        length = self._least_s + how * (self._most_s - self._least_s)
        start = period * self._period_s + where * (self._period_s - length)
        return start, start + length

    def since(self, now_s: float) -> float | None:
        """How long a window has been on at this moment (s since 1970); None: there is none."""
        start, end = self.of(int(now_s // self._period_s))
        return now_s - start if start <= now_s < end else None


class Lag:
    """The loop's lag in the newest seconds of one kind."""

    __slots__ = ("_seconds",)

    def __init__(self, seconds: int) -> None:
        self._seconds: deque[list[int]] = deque(maxlen=seconds)

    def add(self, late_ns: list[int]) -> None:
        """One more second: how late each tick was."""
        self._seconds.append(late_ns)

    def clear(self) -> None:
        """Nothing is known."""
        self._seconds.clear()

    @property
    def full(self) -> bool:
        """As many seconds as it keeps are known."""
        return len(self._seconds) == self._seconds.maxlen

    def quantile(self, p: float) -> int:
        """In ns; 0 where nothing is known."""
        known = sorted(chain.from_iterable(self._seconds))
        return known[math.ceil(len(known) * p) - 1] if known else 0


class Guard:
    """Whether mirroring must stand still for the loop's sake. Told of each second once.

    A p99 above the limit over ten seconds with mirroring on is a suspicion. Five seconds without
    mirroring follow, a window's or a probe's own: if the p99 is within the limit there, it was
    mirroring, and it pauses; if not, it was not, and it goes on.
    """

    __slots__ = (
        "_again_s",
        "_limit_ns",
        "_not_before_s",
        "_pause_s",
        "_probe_since_s",
        "_quiet",
        "_resume_at_s",
        "_resumed_s",
        "_was_on",
        "off",
        "on",
        "pauses_total",
        "probes_total",
    )

    def __init__(self, limit_ns: int) -> None:
        self._limit_ns = limit_ns
        self.on, self.off = Lag(ON_SECONDS), Lag(OFF_SECONDS)
        self._was_on = False
        self._quiet = 0
        self._probe_since_s: float | None = None
        self._resume_at_s: float | None = None
        self._resumed_s = 0.0
        self._not_before_s = 0.0
        self._again_s, self._pause_s = AGAIN_S, PAUSE_S
        self.pauses_total = self.probes_total = 0

    @property
    def paused(self) -> bool:
        """It has paused mirroring."""
        return self._resume_at_s is not None

    @property
    def holds(self) -> bool:
        """Mirroring must stand still: paused, or probed."""
        return self._resume_at_s is not None or self._probe_since_s is not None

    @property
    def suspects(self) -> bool:
        """With mirroring on the lag is above the limit."""
        return self.on.full and self.on.quantile(0.99) > self._limit_ns

    def second(self, now_s: float, late_ns: list[int], *, on: bool, open_copies: int) -> None:
        """A second has ended, in all of which mirroring was on, or off.

        Args:
            now_s: the monotonic clock.
            late_ns: how late each tick of it was.
            on: whether mirroring was on.
            open_copies: requests of arms that are still open.
        """
        if self._resume_at_s is not None:
            self._paused(now_s, late_ns)
        elif on:
            self._was_on = True
            self.on.add(late_ns)
            if now_s >= self._not_before_s and self.suspects:
                self._probe_since_s = now_s
                self.probes_total += 1
        else:
            self._without(now_s, late_ns, open_copies)

    def _without(self, now_s: float, late_ns: list[int], open_copies: int) -> None:
        if self._was_on:
            self.off.clear()
            self._quiet = 0
        self._was_on = False
        self._quiet = 0 if open_copies else self._quiet + 1
        self.off.add(late_ns)
        if not self.off.full:
            return
        if self.suspects and self.off.quantile(0.99) <= self._limit_ns:
            self._pause(now_s)
        elif self._probe_since_s is not None and (
            self._quiet >= OFF_SECONDS or now_s - self._probe_since_s >= PROBE_S
        ):
            self._probe_since_s = None
            self._not_before_s = now_s + self._again_s
            self._again_s = min(2 * self._again_s, MOST_AGAIN_S)

    def _pause(self, now_s: float) -> None:
        if now_s - self._resumed_s >= CALM_S:
            self._pause_s = PAUSE_S
        self._probe_since_s = None
        self._resume_at_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, MOST_PAUSE_S)
        self._again_s = AGAIN_S
        self.pauses_total += 1

    def _paused(self, now_s: float, late_ns: list[int]) -> None:
        self.off.add(late_ns)
        if self._resume_at_s is not None and now_s >= self._resume_at_s:
            self._resume_at_s = None
            self._resumed_s = now_s
            self.on.clear()


class Watch:
    """How late a timer of 50 ms comes: what a random moment's event waits for the loop."""

    __slots__ = ("_due_ns", "_handle", "_late_ns", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._late_ns: list[int] = []
        self._due_ns = monotonic_ns() + _TICK_NS
        self._handle = loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        now = monotonic_ns()
        late = now - self._due_ns
        self._late_ns.append(late)
        if late > _TICK_NS:  # the ticks that could not come were late too
            self._late_ns.extend(range(late - _TICK_NS, 0, -_TICK_NS))
        self._due_ns = now + _TICK_NS
        self._handle = self._loop.call_later(TICK_S, self._tick)

    def take(self) -> list[int]:
        """How late each tick since the last call was, in ns."""
        taken, self._late_ns = self._late_ns, []
        return taken

    def stop(self) -> None:
        """End it."""
        self._handle.cancel()
