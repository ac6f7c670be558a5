"""A process of the collector's: how it is told to end, and what its exit status says."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

USAGE = 2
"""A mistake in the configuration; starting again does not mend it."""
BAD_WORLD = 75
"""EX_TEMPFAIL of sysexits.h: start it again. Never 1, which is a gate's reject."""
NICENESS = 10
"""Below the proxy's priority: it may share its cores with us."""


class Stopped(Exception):
    """Told to end while the store or the stream was away: what is not committed is read again."""


def sleep_until(stopping: threading.Event) -> Callable[[float], None]:
    """A pause between two tries that a stop ends: a drain does not wait for a bad world.

    What is not committed then is read again by the next collector.
    """

    def sleep(seconds: float) -> None:
        if stopping.wait(seconds):
            raise Stopped

    return sleep


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that the first SIGTERM or SIGINT sets; a second one ends the process at once."""
    stopping = threading.Event()

    def stop(number: int, _frame: object) -> None:
        if stopping.is_set():
            os._exit(128 + number)
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
