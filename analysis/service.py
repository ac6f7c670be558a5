"""The analysis as a process: look, judge, write verdicts, rest, until told to end."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from analysis.clock import WallClock
from analysis.gate import NO_CANDIDATE
from analysis.look import Memory
from analysis.looking import Looking
from analysis.settings import Settings
from analysis.status import Status

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

BAD_WORLD = 75
"""EX_TEMPFAIL of sysexits.h: start it again. Never 1, which is a gate's reject."""
NICE = 10
SETTLE_REST_S = 0.3
NEWS_S = 5.0
"""Within this every proxy's next record is stored, stamped by a clock that was set."""

log = structlog.get_logger("analysis")


def run(
    settings: Settings,
    connect: Callable[[], Client],
    stop: threading.Event | None = None,
    settle_s: float = 0.0,
    status: Status | None = None,
    then: Callable[[Client], None] | None = None,
    words: Callable[[Exception], str] = str,
) -> int:
    """Look every couple of seconds until SIGTERM or SIGINT, then once more.

    While the store cannot be reached it waits, ever longer up to 10 s.

    Args:
        settings: the experiment.
        connect: makes a client; called again after the store was away.
        stop: ends the loop when set; without it the process's signals do.
        settle_s: how long it looks on after that until no worker may still send something: for a
            supervisor that has ended the proxy and is about to end the collector.
        status: is told how it goes.
        then: called after each look, with the store.
        words: what is said of an exception of the store's client.

    Returns:
        Exit status: 0; 75 where a reachable store kept refusing.
    """
    if stop is None:
        stop = _signalled()
        os.nice(NICE)
    log.info("started", experiment=settings.experiment, candidates=list(settings.candidates))
    if not settings.candidates:
        log.warning("nothing to judge", reason=NO_CANDIDATE)
    looking = Looking(settings, connect, then, words, status or Status())
    patience, clock = _Patience(stop, settle_s), WallClock()
    while True:
        if moved_s := clock.set_by_s():
            log.warning("the clock was set", by_s=round(moved_s, 1))
            looking.clock_was_set()
            patience.rest(NEWS_S)
        last = stop.is_set()
        rest_s = looking.look(last=last)
        if looking.refused or (last and not patience.waits_for(looking.memory)):
            looking.end()
            return BAD_WORLD if looking.refused else 0
        patience.rest(rest_s)


@dataclass(slots=True)
class _Patience:
    """Rests between looks; after `stop` short ones, while something may still come."""

    stop: threading.Event
    settle_s: float
    until_s: float | None = None

    def waits_for(self, memory: Memory) -> bool:
        """Whether to look again after `stop`."""
        now = time.monotonic()
        self.until_s = now + self.settle_s if self.until_s is None else self.until_s
        return not memory.ended and now < self.until_s

    def rest(self, rest_s: float) -> None:
        """Until it is time to look, or to end."""
        if self.stop.is_set():
            time.sleep(SETTLE_REST_S)
        else:
            self.stop.wait(rest_s)


def _signalled() -> threading.Event:
    """Set by SIGTERM or SIGINT."""
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    return told
