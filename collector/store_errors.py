"""Two ways in which the store fails, made of whatever the client library raises."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from clickhouse_connect.driver.exceptions import ClickHouseError, Error, OperationalError
from urllib3.exceptions import HTTPError

from collector.wording import no_clickhouse, not_reached, overloaded

if TYPE_CHECKING:
    from collections.abc import Iterator

UNAVAILABLE_CODES = frozenset(
    {
        159,  # TIMEOUT_EXCEEDED
        160,  # TOO_SLOW
        198,  # DNS_ERROR
        202,  # TOO_MANY_SIMULTANEOUS_QUERIES
        203,  # NO_FREE_CONNECTION
        209,  # SOCKET_TIMEOUT
        210,  # NETWORK_ERROR
        225,  # NO_ZOOKEEPER
        236,  # ABORTED
        241,  # MEMORY_LIMIT_EXCEEDED
        242,  # TABLE_IS_READ_ONLY
        243,  # NOT_ENOUGH_SPACE
        252,  # TOO_MANY_PARTS
        265,  # NO_AVAILABLE_REPLICA
        279,  # ALL_CONNECTION_TRIES_FAILED
        285,  # TOO_FEW_LIVE_REPLICAS
        286,  # UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
        289,  # REPLICA_IS_NOT_IN_QUORUM
        319,  # UNKNOWN_STATUS_OF_INSERT
        341,  # UNFINISHED
        373,  # SESSION_IS_LOCKED
        394,  # QUERY_WAS_CANCELLED
        415,  # ALL_REPLICAS_LOST
        416,  # REPLICA_STATUS_CHANGED
        425,  # SYSTEM_ERROR
        439,  # CANNOT_SCHEDULE_TASK
        499,  # S3_ERROR
        517,  # CANNOT_ASSIGN_ALTER
        722,  # ASYNC_LOAD_WAIT_FAILED
        733,  # TABLE_IS_BEING_RESTARTED
        749,  # TCP_CONNECTION_LIMIT_REACHED
        999,  # KEEPER_EXCEPTION
    }
)


class StoreError(Exception):
    """What the store could not do; one line."""


class StoreUnavailable(StoreError):
    """A bad world: refused connection, time-out, overload. Retrying may help."""


class StoreRefused(StoreError):
    """A bad value or statement: it fails the same way however often it is retried.

    Attributes:
        code: ClickHouse's number of the error; None where a client refused before any server did.
    """

    def __init__(self, code: int | None, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class NotClickHouse(StoreRefused):
    """Somebody else answers at the URL."""

    def __init__(self, message: str) -> None:
        super().__init__(None, message)


@contextmanager
def store_errors(url: str = "") -> Iterator[None]:
    """Translate the client library's exceptions, here and nowhere else.

    Raises:
        StoreUnavailable: a bad world.
        StoreRefused: a bad value or statement; NotClickHouse: the answer of somebody else.
    """
    try:
        yield
    except StoreError:
        raise
    except (ClickHouseError, HTTPError, OSError) as error:
        raise translated(error, url) from error


def translated(error: Exception, url: str = "") -> StoreError:
    """The one of our exceptions that a foreign one means; its text on one line."""
    message = " ".join(str(error).split()) or type(error).__name__
    code = error.code if isinstance(error, Error) else None
    if code is not None:
        world = code in UNAVAILABLE_CODES
        return StoreUnavailable(message) if world else StoreRefused(code, message)
    if away := overloaded(error):
        return StoreUnavailable(away)
    if other := no_clickhouse(error, url):
        return NotClickHouse(other)
    world = not isinstance(error, ClickHouseError) or isinstance(error, OperationalError)
    return (
        StoreUnavailable(not_reached(error, url) or message)
        if world
        else StoreRefused(None, message)
    )
