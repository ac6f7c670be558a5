"""The loop's lag: how late a timer comes, and how late it came of late."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from itertools import chain
from time import monotonic_ns
from typing import Final, NamedTuple

TICK_S: Final = 0.05
"""Twenty a second: a hundred cost 0.3 % of a core, these under 0.1 %."""
MOST_TICKS: Final = 400
"""So many at most are made of one: a process that was stopped for hours knows them no better."""
FINE_S: Final = 0.003
"""While a probe looks: no stall of 5 ms falls between two ticks."""


class Span(NamedTuple):
    """A stretch of time in all of which mirroring was on, or off."""

    now_s: float
    """Its end, by the monotonic clock."""
    length_s: float
    late_ns: list[int]
    """How late each tick of it was; none: nobody watched, for the loop was idle."""
    on: bool
    open_copies: int
    """Requests of arms that are open at its end."""


class Watch:
    """How late a timer comes: what a random moment's event waits for the loop."""

    __slots__ = ("_due_ns", "_handle", "_late_ns", "_loop", "_tick_s")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._late_ns: list[int] = []
        self._tick_s = TICK_S
        self._wait()

    def _wait(self) -> None:
        self._due_ns = monotonic_ns() + int(self._tick_s * 1e9)
        self._handle = self._loop.call_later(self._tick_s, self._tick)

    def _tick(self) -> None:
        late, tick_ns = monotonic_ns() - self._due_ns, int(self._tick_s * 1e9)
        self._late_ns.append(late)
        if late > tick_ns:  # the ticks that could not come were late too
            missed = range(late - tick_ns, 0, -tick_ns)
            self._late_ns.extend(missed[:MOST_TICKS])
        self._wait()

    def pace(self, tick_s: float) -> None:
        """Tick so often from now on."""
        if tick_s != self._tick_s:
            self._handle.cancel()
            self._tick_s = tick_s
            self._wait()

    def take(self) -> list[int]:
        """How late each tick since the last call was, in ns."""
        taken, self._late_ns = self._late_ns, []
        return taken

    def stop(self) -> None:
        """End it."""
        self._handle.cancel()


class Lag:
    """The loop's lag in the newest seconds of one kind."""

    __slots__ = ("_known_s", "_seconds", "_spans")

    def __init__(self, seconds: float) -> None:
        self._seconds, self._known_s = seconds, 0.0
        self._spans: deque[Span] = deque()

    def add(self, span: Span) -> None:
        """One more span; the oldest go as soon as the others are seconds enough."""
        if not span.late_ns:
            return
        self._spans.append(span)
        self._known_s += span.length_s
        while self._known_s - self._spans[0].length_s >= self._seconds:
            self._known_s -= self._spans.popleft().length_s

    def clear(self) -> None:
        """Nothing is known."""
        self._spans.clear()
        self._known_s = 0.0

    @property
    def full(self) -> bool:
        """As many seconds as it keeps are known."""
        return self._known_s >= self._seconds - 1e-6

    def quantile(self, p: float) -> int:
        """In ns; 0 where nothing is known."""
        known = sorted(chain.from_iterable(span.late_ns for span in self._spans))
        return known[math.ceil(len(known) * p) - 1] if known else 0

    def share(self, limit_ns: int) -> float:
        """Of the ticks, those later than the limit; 0 where nothing is known."""
        known = list(chain.from_iterable(span.late_ns for span in self._spans))
        return sum(late > limit_ns for late in known) / max(len(known), 1)
