"""The store as commands reach it: by HTTP, or by its folder where nothing serves it.

Three ends: a client; `StoreUnavailable`, which another time may mend; `ConfigError`, where the
store answers and does not take what the configuration says.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shadow.cli.settings import store_settings
from shadow.config import Config, ConfigError
from shadow.config.ends import EmbeddedStore

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

    from collector.store import StoreRefused, StoreUnavailable

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
_NOT_KNOWN = frozenset({192, 193, 194, 516})
"""Of an unknown user, a wrong or a missing password, and either of them."""
_NOT_ALLOWED = 497


def connect(config: Config, *, create: bool = False, answer_s: int = ANSWER_S) -> Client:
    """A client of the store by HTTP, as every process but the collector has it.

    Args:
        config: where it is.
        create: whether the database may be missing, since it is about to be made.
        answer_s: how long each of its answers may take.

    Raises:
        StoreUnavailable, StoreRefused: see collector.store.
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
    with _mistakes(config):
        return by_http(replace(settings, database=None) if create else settings)


@contextmanager
def store(config: Config, *, create: bool = False, answer_s: int = ANSWER_S) -> Iterator[Client]:
    """The store by HTTP; when nothing serves an embedded one, its folder, in this process.

    A folder that another command reads is waited for, as is a collector that is about to serve it.

    Raises:
        StoreUnavailable, StoreRefused, ConfigError: as `connect`.
    """
    with ExitStack() as stack, _mistakes(config):
        yield _client(config, stack, create, answer_s)


def read_store(
    config: Config, read: Callable[[Client], dict[str, Any] | None], answer_s: int = READ_S
) -> tuple[dict[str, Any] | None, str]:
    """What `read` finds in the store, or None and the reason.

    Raises:
        ConfigError: no ClickHouse, or one that does not take user and password.
    """
    from collector.store import StoreError, StoreRefused

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
    from collector.store import StoreRefused, StoreUnavailable, store_errors

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
    from collector.store import StoreUnavailable

    until_s = time.monotonic() + FOLDER_WAIT_S
    while True:
        asked_s = time.monotonic()
        try:
            return stack.enter_context(closing(connect(config, create=create, answer_s=answer_s)))
        except StoreUnavailable as away:
            if not isinstance(config.store, EmbeddedStore):
                raise
            unserved = away
        holder = _holder(config.store.embedded, stack, create=create)
        if holder is None:
            return stack.enter_context(closing(_open_folder(config.store, create=create)))
        hangs = time.monotonic() - asked_s >= min(CONNECT_S, GREET_S)  # and will hang once more
        if hangs or time.monotonic() >= until_s:
            raise _in_use(holder, unserved)
        time.sleep(LOOK_AGAIN_S)


def _in_use(holder: str, unserved: StoreUnavailable) -> StoreUnavailable:
    from collector.store import StoreUnavailable

    return StoreUnavailable(f"{unserved}; {holder}")


def _holder(folder: Path, stack: ExitStack, *, create: bool) -> str | None:
    """Who else has the folder; None: it is ours until the stack ends.

    Of several commands that read, one after the other opens it: the engine would print its own
    words of a lock that it cannot have.
    """
    from collector.folder import locked_by

    if create:
        folder.mkdir(parents=True, exist_ok=True)
    try:
        place = os.open(folder, os.O_RDONLY)
    except OSError:  # the opening itself says what is wrong
        return None
    with ExitStack() as ours:
        ours.callback(os.close, place)
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return locked_by(folder) or f"the store's folder {folder} is in use by another command"
        if holder := locked_by(folder):
            return holder
        stack.push(ours.pop_all())
    return None


def _open_folder(embedded: EmbeddedStore, *, create: bool) -> Client:
    from collector.store import open_folder

    return open_folder(embedded.embedded, None if create else embedded.database)


@contextmanager
def _mistakes(config: Config) -> Iterator[None]:
    """A refusal for which the configuration is to blame, as one line with its key."""
    from collector.store import StoreRefused

    try:
        yield
    except StoreRefused as refused:
        mistake = _mistake(config, refused)
        if mistake is None:
            raise
        raise ConfigError(mistake) from None


def _mistake(config: Config, refused: StoreRefused) -> str | None:
    from collector.store import NotClickHouse

    settings = store_settings(config)
    embedded = isinstance(config.store, EmbeddedStore)
    group = "store" if embedded else "store.clickhouse"
    if isinstance(refused, NotClickHouse):
        return f"{group}.{'listen' if embedded else 'url'}: {refused}"
    where = f"store at {settings.url}"
    if refused.code in _NOT_KNOWN:
        way = "is it that user's, and the variable set?"
        return f"{group}.password: {where} does not take it for the user {settings.user}; {way}"
    if refused.code == _NOT_ALLOWED:
        return f"{group}.user: {where}: {settings.user} lacks a right: {refused}"
    return None
