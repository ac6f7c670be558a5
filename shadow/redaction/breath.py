"""The loop needs the interpreter's lock more than redaction does: work a little, sleep a little."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

SLICE_SECONDS: Final = 0.0004
PAUSE_SECONDS: Final = 0.0004
_STRIDE: Final = 32
_COPIED_BYTES: Final = 256 * 1024

T = TypeVar("T")


class TooLong(Exception):
    """A body takes more work than it may."""


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


class Pace:
    """A breath that knows the end: called in every loop over what a body holds.

    Args:
        breathe: called each time; may sleep.
    """

    def __init__(self, breathe: Callable[[], None] = lambda: None) -> None:
        self.breathe = breathe
        self._until_s = self._look_s = math.inf

    def begin(self, seconds: float) -> None:
        """Give a body so many seconds of this thread's time."""
        self._until_s = time.thread_time() + seconds
        self._look_s = time.perf_counter() + seconds

    def end(self) -> None:
        """From now on there is time."""
        self._until_s = self._look_s = math.inf

    def __call__(self) -> None:
        """Breathe.

        Raises:
            TooLong: the body's time is over.
        """
        self.breathe()
        now = time.perf_counter()
        if now > self._look_s:  # the thread's own time, slower to ask for, cannot be over before
            left = self._until_s - time.thread_time()
            if left < 0:
                raise TooLong
            self._look_s = now + left

    def through(self, items: Iterable[T]) -> Iterator[T]:
        """The items, with a breath now and then."""
        for number, item in enumerate(items):
            if not number % _STRIDE:
                self()
            yield item


def copied(raw: bytes | bytearray, begin: int, end: int) -> bytes:
    """A stretch of it: of a large one in calls that are short, or let go of the lock."""
    if end - begin <= _COPIED_BYTES or (begin == 0 and end == len(raw) and type(raw) is bytes):
        return bytes(raw[begin:end])
    steps = range(begin, end, _COPIED_BYTES)
    return b"".join([bytes(raw[at : min(at + _COPIED_BYTES, end)]) for at in steps])
