"""The loop needs the interpreter's lock more than redaction does: work a little, sleep a little."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

SLICE_SECONDS: Final = 0.0004
PAUSE_SECONDS: Final = 0.0004


class Breath:
    """Call it often, in the sender thread.

    Args:
        hurried: while it says so nobody sleeps: the queue fills up, or the process ends.
    """

    def __init__(self, hurried: Callable[[], bool]) -> None:
        self._hurried = hurried
        self._end = 0.0

    def __call__(self) -> None:
        """Sleep if a slice of work is over."""
        now = time.perf_counter()
        if now < self._end:
            return
        if now < self._end + 4 * SLICE_SECONDS and not self._hurried():
            time.sleep(PAUSE_SECONDS)
            now = time.perf_counter()
        self._end = now + SLICE_SECONDS
