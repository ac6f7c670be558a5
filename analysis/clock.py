"""The wall clock, by which arrivals are stamped, against the one that nobody sets."""

from __future__ import annotations

import time
from collections.abc import Callable

STEP_S = 5.0
"""More than any correction that makes no step moves it between two looks."""


class WallClock:
    """Whether it was set, or the machine slept, since it was looked at last."""

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wall, self._steady = wall, steady
        self._offset_s = wall() - steady()

    def set_by_s(self) -> float:
        """By how much, positive where it was set forward; 0 where it was not."""
        offset_s = self._wall() - self._steady()
        moved_s, self._offset_s = offset_s - self._offset_s, offset_s
        return moved_s if abs(moved_s) > STEP_S else 0.0
