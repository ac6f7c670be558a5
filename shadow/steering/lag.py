"""The loop's lag: how late a timer comes, and how late it came of late."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from itertools import chain
from time import monotonic_ns
from typing import Final

TICK_S: Final = 0.05
"""Twenty a second: a hundred cost 0.3 % of a core, these under 0.1 %."""
_TICK_NS: Final = int(TICK_S * 1e9)


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
