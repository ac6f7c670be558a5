"""The analysis as a process: look, build windows, judge, write verdicts, rest, until told to end.

`report` and `stored` are what `shadow report` and `shadow gate` read, while it runs or afterwards.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import structlog
from clickhouse_connect.driver.exceptions import (
    ClickHouseError,
    DatabaseError,
    OperationalError,
)

from analysis.clock import WallClock
from analysis.closing import patient
from analysis.evidence import Rewritten
from analysis.gate import NO_CANDIDATE
from analysis.look import Memory, Newest, look
from analysis.settings import Settings
from shadow.outage import Outage

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

BAD_WORLD = 75
"""EX_TEMPFAIL of sysexits.h: start it again. Never 1, which is a gate's reject."""
NICE = 10
REST_S = 2.0
BUSY_SHARE = 0.25
"""A look that takes long is followed by a rest three times as long, up to `MOST_REST_S`."""
MOST_REST_S = 30.0
SETTLE_REST_S = 0.3
NEWS_S = 5.0
"""Within this every proxy's next record is stored, stamped by a clock that was set."""
BACKOFF_S = (0.5, 1.0, 2.0, 5.0, 10.0)
QUIET_S = 20.0
"""The collector that starts beside us needs some seconds to open its store and make its tables."""
MOST_REFUSALS = 5
"""So many refusals of a reachable store in a row end the process; a supervisor starts it again."""
NO_TABLES = "its tables are not made yet; is `shadow collect` running?"
NOT_MIGRATED = {60, 81}
"""ClickHouse's codes for an unknown table or database: the collector has not made them yet."""

log = structlog.get_logger("analysis")


class StoreAway(Exception):
    """The store cannot be reached now."""


@dataclass(slots=True)
class Status:
    """What the service says of itself: written by its thread, read by any."""

    reason: str | None = "starting"
    """Why it does not work now, in one line; None while it does."""
    looks_total: int = 0
    look_seconds: float = 0.0
    verdicts: Mapping[str, Newest] = field(default_factory=dict)
    """By candidate, as the last look has them."""

    def looked(self, seconds: float) -> None:
        """A pass over the store took so long, and worked."""
        self.reason, self.look_seconds = None, seconds
        self.looks_total += 1


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
    memory, failures, refusals = Memory(), 0, 0
    status = status or Status()
    outage = Outage(log, starting="waiting for the store and its tables", quiet_s=QUIET_S)
    client: Client | None = None
    patience, clock = _Patience(stop, settle_s), WallClock()
    while True:
        if moved_s := clock.set_by_s():
            log.warning("the clock was set: arrivals before and after it", by_s=round(moved_s, 1))
            memory = replace(memory, progress=patient(memory.progress))
            patience.rest(NEWS_S)
        last, began = stop.is_set(), time.monotonic()
        try:
            client = client or _connected(connect)
            first = memory.watermark_ns == 0
            memory = look(client, settings, memory, time.time_ns(), whole=first or last)
            if then is not None:
                then(client)
            failures, refusals = 0, 0
            outage.back()
            if not status.looks_total:
                log.info(_judging(settings))
            status.verdicts = memory.verdicts
            status.looked(time.monotonic() - began)
            rest_s = _rest(status.look_seconds)
        except (StoreAway, ClickHouseError, OSError, Rewritten) as error:
            refusals = refusals + 1 if _refused(error) else 0
            rest_s = BACKOFF_S[min(failures, len(BACKOFF_S) - 1)]
            failures += 1
            why = NO_TABLES if _not_migrated(error) else _one_line(words(error))
            status.reason = f"the store is away: {why}"
            outage.away("store away", why)
            _close(client)
            client = None
        if (last and not patience.waits_for(memory)) or refusals >= MOST_REFUSALS:
            _close(client)
            log.info("ended", looked_at_all=failures == 0)
            return BAD_WORLD if refusals >= MOST_REFUSALS else 0
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


def _rest(looked_s: float) -> float:
    return min(max(REST_S, looked_s * (1 / BUSY_SHARE - 1)), MOST_REST_S)


def _connected(connect: Callable[[], Client]) -> Client:
    try:
        return connect()
    except Exception as error:  # the caller's own words for a store that is away
        raise StoreAway(str(error)) from error


def _close(client: Client | None) -> None:
    if client is not None:
        with suppress(ClickHouseError, OSError):
            client.close()


def _refused(error: Exception) -> bool:
    """A reachable store said no, and not only because its tables are still to be made."""
    return (
        isinstance(error, DatabaseError)
        and not isinstance(error, OperationalError)
        and error.code not in NOT_MIGRATED
    )


def _not_migrated(error: Exception) -> bool:
    return isinstance(error, DatabaseError) and error.code in NOT_MIGRATED


def _judging(settings: Settings) -> str:
    """One line that says what is compared with what."""
    candidates = ", ".join(settings.candidates) or "nothing"
    return f"judging {candidates} against {settings.control or 'primary'}, {settings.experiment}"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]


def _signalled() -> threading.Event:
    """Set by SIGTERM or SIGINT."""
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    return told
