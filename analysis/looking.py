"""Look after look over a store that may be away: what is kept between them, how long to rest."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog
from clickhouse_connect.driver.exceptions import (
    ClickHouseError,
    DatabaseError,
    OperationalError,
)

from analysis.closing import patient
from analysis.evidence import Rewritten
from analysis.look import Memory, look
from analysis.settings import Settings
from analysis.status import Status
from shadow.outage import Outage

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

REST_S = 2.0
BUSY_SHARE = 0.25
"""A look that takes long is followed by a rest three times as long, up to `MOST_REST_S`."""
MOST_REST_S = 30.0
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


class Looking:
    """See the module.

    Args:
        settings: the experiment.
        connect: makes a client; called again after the store was away.
        then: called after each look, with the store.
        words: what is said of an exception of the store's client.
        status: is told how it goes.
    """

    def __init__(
        self,
        settings: Settings,
        connect: Callable[[], Client],
        then: Callable[[Client], None] | None,
        words: Callable[[Exception], str],
        status: Status,
    ) -> None:
        self._settings, self._connect = settings, connect
        self._then, self._words, self._status = then, words, status
        self._outage = Outage(log, starting="waiting for the store and its tables", quiet_s=QUIET_S)
        self._client: Client | None = None
        self.memory = Memory()
        self._failures = self._refusals = 0

    @property
    def refused(self) -> bool:
        """A reachable store keeps saying no."""
        return self._refusals >= MOST_REFUSALS

    def clock_was_set(self) -> None:
        """Nobody's next record is waited for by its old clock."""
        self.memory = replace(self.memory, progress=patient(self.memory.progress))

    def look(self, *, last: bool) -> float:
        """Once, where the store can be reached; how long to rest, s."""
        try:
            return self._looked(last=last)
        except (StoreAway, ClickHouseError, OSError, Rewritten) as error:
            return self._failed(error)

    def _looked(self, *, last: bool) -> float:
        began = time.monotonic()
        client = self._client = self._client or _connected(self._connect)
        whole = last or self.memory.watermark_ns == 0
        self.memory = look(client, self._settings, self.memory, time.time_ns(), whole=whole)
        if self._then is not None:
            self._then(client)
        self._failures = self._refusals = 0
        self._outage.back()
        if not self._status.looks_total:
            log.info(_judging(self._settings))
        self._status.verdicts = self.memory.verdicts
        self._status.looked(time.monotonic() - began)
        return min(max(REST_S, self._status.look_seconds * (1 / BUSY_SHARE - 1)), MOST_REST_S)

    def _failed(self, error: Exception) -> float:
        self._refusals = self._refusals + 1 if _refused(error) else 0
        rest_s = BACKOFF_S[min(self._failures, len(BACKOFF_S) - 1)]
        self._failures += 1
        why = NO_TABLES if _not_migrated(error) else _one_line(self._words(error))
        self._status.reason = f"the store is away: {why}"
        self._outage.away("store away", why)
        self._close()
        return rest_s

    def end(self) -> None:
        """No further look."""
        self._close()
        failed = "failed: the next start looks again"
        log.info("ended", last_look=failed if self._failures else "done, all windows")

    def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(ClickHouseError, OSError):
                client.close()


def _connected(connect: Callable[[], Client]) -> Client:
    try:
        return connect()
    except Exception as error:  # the caller's own words for a store that is away
        raise StoreAway(str(error)) from error


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
