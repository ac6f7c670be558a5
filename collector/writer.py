"""Batches into the store: all of it, but for the rows that it refuses, which are named."""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from clickhouse_connect.driver.exceptions import DataError

from collector.patience import Backoff, patiently
from collector.store_errors import StoreRefused, StoreUnavailable, store_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from clickhouse_connect.driver.client import Client

T = TypeVar("T")

# What a value that does not fit its column's type raises while the client writes it down.
_VALUE_ERRORS = (TypeError, ValueError, OverflowError, AttributeError, struct.error, DataError)

# The statement, the table or the rights are at fault, not one row: dead-lettering every row for
# it would empty the stream, so it is raised, and a person mends it.
_NOT_A_ROW = frozenset(
    {
        16,  # NO_SUCH_COLUMN_IN_TABLE
        20,  # NUMBER_OF_COLUMNS_DOESNT_MATCH
        47,  # UNKNOWN_IDENTIFIER
        48,  # NOT_IMPLEMENTED
        60,  # UNKNOWN_TABLE
        62,  # SYNTAX_ERROR
        81,  # UNKNOWN_DATABASE
        115,  # UNKNOWN_SETTING
        164,  # READONLY
        192,  # UNKNOWN_USER
        193,  # WRONG_PASSWORD
        194,  # REQUIRED_PASSWORD
        218,  # TABLE_IS_DROPPED
        497,  # ACCESS_DENIED
        516,  # AUTHENTICATION_FAILED
        701,  # CLUSTER_DOESNT_EXIST
    }
)


@dataclass(frozen=True)
class Refused:
    """A row of the batch that the store does not take, and why."""

    index: int
    reason: str


_KNOWN = """
SELECT DISTINCT source FROM dead_letters
WHERE source IN {sources:Array(String)} AND at >= fromUnixTimestamp64Nano({since_ns:Int64}, 'UTC')
"""


class Writer:
    """Inserts batches through one client; of one thread.

    Args:
        client: of `collector.store`.
        backoff: how an unavailable store is waited for.
        clock: seconds, monotonic.
        sleep: takes seconds.
        told: hears that the store is away, and with None that it is not.
    """

    def __init__(
        self,
        client: Client,
        backoff: Backoff = Backoff(),  # noqa: B008 - it is frozen
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        told: Callable[[Exception | None], None] = lambda _away: None,
    ) -> None:
        self._client = client
        self._backoff = backoff
        self._clock = clock
        self._sleep = sleep
        self._told = told

    def insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], token: str
    ) -> list[Refused]:
        """Store the rows and return those that were refused, by their index.

        The token names these rows: the same rows under the same token, inserted again within the
        table's deduplication window, are not stored twice. A batch that is refused is halved
        until the row at fault stands alone; the halves have tokens of their own.

        Raises:
            StoreUnavailable: the store did not come back within the backoff's limit.
            StoreRefused: it is no row that is at fault, but the table, the rights or the like.
        """
        if not rows:
            return []
        return self._part(table, columns, rows, token, 0)

    def patiently(self, action: Callable[[], T]) -> T:
        """Do it, waiting for a store that is away.

        Raises:
            StoreUnavailable: the store did not come back within the backoff's limit.
        """
        return patiently(
            action, StoreUnavailable, self._backoff, self._clock, self._sleep, self._told
        )

    def known_letters(self, sources: Sequence[str], since_ns: int) -> frozenset[str]:
        """Which of these dead letters are stored already, since that time (UTC, ns).

        Raises:
            StoreUnavailable: the store did not come back within the backoff's limit.
        """
        return self.patiently(lambda: self._known_letters(sources, since_ns))

    def _known_letters(self, sources: Sequence[str], since_ns: int) -> frozenset[str]:
        with store_errors():
            rows = self._client.query(
                _KNOWN, parameters={"sources": list(sources), "since_ns": since_ns}
            ).result_rows
        return frozenset(str(source) for (source,) in rows)

    def _part(
        self,
        table: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        token: str,
        first: int,
    ) -> list[Refused]:
        refused = self.patiently(lambda: self._once(table, columns, rows, token))
        if refused is None:
            return []
        if len(rows) == 1:
            return [Refused(first, refused.message)]
        half = len(rows) // 2
        return [
            *self._part(table, columns, rows[:half], f"{token}.0", first),
            *self._part(table, columns, rows[half:], f"{token}.1", first + half),
        ]

    def _once(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], token: str
    ) -> StoreRefused | None:
        """None, or the refusal that some row of these is to blame for."""
        settings = {"insert_deduplication_token": token}
        try:
            with store_errors():
                try:
                    self._client.insert(table, rows, column_names=columns, settings=settings)
                except _VALUE_ERRORS as error:
                    return StoreRefused(None, f"{type(error).__name__}: {error}")
        except StoreRefused as refused:
            if refused.code is None or refused.code in _NOT_A_ROW:
                raise
            return refused
        return None
