"""The store as commands reach it: by HTTP, or by its folder where nothing serves it.

Three ends: a client; `StoreUnavailable`, which another time may mend; `ConfigError`, where the
store answers and does not take what the configuration says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shadow.cli.settings import store_settings
from shadow.cli.store_folder import holder
from shadow.cli.store_mistakes import mistakes
from shadow.config import Config, ConfigError
from shadow.config.ends import EmbeddedStore

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client


CONNECT_S = 5
GREET_S = 10
"""The first answers: by them a store that is stopped shows itself."""
ANSWER_S = 300
"""Each later one, where a command does not bound it closer."""
READ_S = 60
GATE_S = 10
FOLDER_WAIT_S = 15.0
LOOK_AGAIN_S = 0.1
NOT_MIGRATED = frozenset({60, 81})
"""ClickHouse's codes for an unknown table or database: nothing was collected yet."""
_OLDER = frozenset({16, 47})
"""Of an unknown column: an older version's tables, or a collector is just updating them."""


def connect(config: Config, *, create: bool = False, answer_s: int = ANSWER_S) -> Client:
    """A client of the store by HTTP, as every process but the collector has it.

    Args:
        config: where it is.
        create: whether the database may be missing, since it is about to be made.
        answer_s: how long each of its answers may take.

    Raises:
        StoreUnavailable, StoreRefused: see collector.store_errors.
        ConfigError: no ClickHouse, or one that does not take user and password.
    """
    from collector.store import connect as by_http

    settings = replace(
        store_settings(config),
        connect_timeout_s=CONNECT_S,
        greet_timeout_s=GREET_S,
        timeout_s=answer_s,
    )
    if settings.ca is not None and not settings.ca.is_file():
        raise ConfigError(f"store.clickhouse.ca: {settings.ca}: no such file")
    with mistakes(config):
        return by_http(replace(settings, database=None) if create else settings)


@contextmanager
def store(config: Config, *, create: bool = False, answer_s: int = ANSWER_S) -> Iterator[Client]:
    """The store by HTTP; when nothing serves an embedded one, its folder, in this process.

    A folder that another command reads is waited for, as is a collector that is about to serve it.

    Raises:
        StoreUnavailable, StoreRefused, ConfigError: as `connect`.
    """
    with ExitStack() as stack, mistakes(config):
        yield _client(config, stack, create, answer_s)


def read_store(
    config: Config, read: Callable[[Client], dict[str, Any] | None], answer_s: int = READ_S
) -> tuple[dict[str, Any] | None, str]:
    """What `read` finds in the store, or None and the reason.

    Raises:
        ConfigError: no ClickHouse, or one that does not take user and password.
    """
    from collector.store_errors import StoreError, StoreRefused

    try:
        with store(config, answer_s=answer_s) as client:
            found = _migrated(client, read)
    except StoreRefused as error:
        if error.code not in NOT_MIGRATED:
            raise
        return None, "no data yet"
    except StoreError as error:
        return None, f"the store cannot be read: {error}"
    return found, "no verdict was written yet"


def _migrated(
    client: Client, read: Callable[[Client], dict[str, Any] | None]
) -> dict[str, Any] | None:
    """What `read` finds; without a column of a later migration the store is not ready."""
    from collector.migrate import behind
    from collector.store_errors import StoreRefused, StoreUnavailable, store_errors

    try:
        with store_errors():
            return read(client)
    except StoreRefused as error:
        lacking = behind(client) if error.code in _OLDER else None
        if lacking is None:
            raise
        raise StoreUnavailable(lacking) from error


def without_store(error: Exception) -> ConfigError:
    """What a command says that cannot go on without the store; one line."""
    if getattr(error, "code", None) in NOT_MIGRATED:
        return ConfigError(
            "store: it has no tables yet; `shadow migrate` or the collector makes them"
        )
    said = str(error)
    return ConfigError(said if said.startswith("store at ") else f"store: {said}")


def _client(config: Config, stack: ExitStack, create: bool, answer_s: int) -> Client:  # noqa: FBT001 internal
    from collector.store import open_folder
    from collector.store_errors import StoreUnavailable

    until_s = time.monotonic() + FOLDER_WAIT_S
    while True:
        asked_s = time.monotonic()
        try:
            return stack.enter_context(closing(connect(config, create=create, answer_s=answer_s)))
        except StoreUnavailable as away:
            if not isinstance(config.store, EmbeddedStore):
                raise
            unserved = away
        other = holder(config.store.embedded, stack, create=create)
        if other is None:
            database = None if create else config.store.database
            return stack.enter_context(closing(open_folder(config.store.embedded, database)))
        hangs = time.monotonic() - asked_s >= min(CONNECT_S, GREET_S)  # and will hang once more
        if hangs or time.monotonic() >= until_s:
            raise StoreUnavailable(f"{unserved}; {other}")
        time.sleep(LOOK_AGAIN_S)
