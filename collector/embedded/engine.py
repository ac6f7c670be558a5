"""chDB, the in-process ClickHouse engine: one folder, one process, any number of handles.

A handle costs 0.1 ms, runs one statement at a time without the interpreter's lock, and keeps its
own settings and database; so every request gets a fresh one and leaves nothing behind.
"""

from __future__ import annotations

import re
import threading
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from collector.embedded.errors import BAD_ARGUMENTS, engine_error, said
from collector.folder import EXTRA, Misconfigured, locked_by, unusable
from collector.store_errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")
_MAX_QUERY_SIZE = 256 * 1024  # ClickHouse's own default
_SERVER_BOUND = "max_server_memory_usage_to_ram_ratio=0.5"
"""Of all statements together: half of the machine's memory, or of the container's. Beyond it the
engine refuses, MEMORY_LIMIT_EXCEEDED, for which our own statements wait and try again."""
_OWN_SETTINGS = {"session_timezone": "UTC", "async_insert": "0"}


@dataclass(frozen=True)
class Frame:
    """What a statement runs under. `mark` is how to stop it; parameters are escaped as in TSV."""

    database: str = "default"
    settings: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    readonly: bool = False
    mark: str = field(default_factory=lambda: str(uuid.uuid4()))


class Engine:
    """An opened store folder. Safe to use from any thread; `close` when nothing runs any more."""

    def __init__(self, path: str, connection: Any) -> None:
        self.path = path
        self._connection = connection  # the first handle: while it is open, so is the engine
        self._closing = threading.Lock()
        text = connection.query("SELECT version(), hostName()", "TabSeparated").bytes().decode()
        self.version, self.host_name = text.rstrip("\n").split("\t")

    @classmethod
    def open(cls, folder: Path) -> Engine:
        """Open the folder, made if missing, for this process alone.

        Raises:
            Misconfigured: chdb is missing, or the folder cannot be used.
            StoreUnavailable: another process holds it, or this process has another one open.
        """
        connect = _connect()
        if why := unusable(folder):
            raise Misconfigured(f"store.embedded: {why}")
        path = str(folder.resolve())
        holder = locked_by(folder)
        try:
            connection = connect(f"{path}?{_SERVER_BOUND}")
            _leave_files(connection, folder)
            return cls(path, connection)
        except RuntimeError as error:
            text = engine_error(error).text
            raise StoreUnavailable(holder or f"the store's folder {folder}: {text}") from error

    @contextmanager
    def handle(self, frame: Frame) -> Iterator[Any]:
        """A fresh handle with the frame's database, settings and parameters applied.

        Raises:
            EngineError: an unknown database or setting, or a value that does not fit.
        """
        connection = _connect()(self.path)
        try:
            with engine_errors():
                if frame.database != "default":
                    connection.query(f"USE {quoted(frame.database, '`')}".encode(), "Null")
                statement = _set_statement(frame)
                if len(statement) > _MAX_QUERY_SIZE:  # long parameters, of a form
                    connection.query(f"SET max_query_size = {2 * len(statement)}", "Null")
                connection.query(statement, "Null")
            yield connection
        finally:
            connection.close()

    def stop_reading(self, mark: str) -> None:
        """Have the engine stop the SELECT that runs under this mark; does not wait for it.

        What writes goes on: its client may be gone, but its rows are complete.
        """
        statement = (
            "KILL QUERY WHERE query_kind = 'Select' "
            "AND startsWith(Settings['log_comment'], {mark:String}) ASYNC"
        )
        with self.handle(Frame(params={"mark": mark})) as connection, engine_errors():
            connection.query(statement, "Null")

    def close(self) -> None:
        """Let go of the folder."""
        with self._closing:
            self._connection.close()


@contextmanager
def engine_errors() -> Iterator[None]:
    """Translate chDB's exceptions to EngineError."""
    try:
        yield
    except (RuntimeError, _chdb_error()) as error:
        raise engine_error(error) from error


def _leave_files(connection: Any, folder: Path) -> None:
    """Put an empty database in the place of chDB's own `default`: there, paths are tables."""
    connection.query("DETACH DATABASE IF EXISTS default", "Null")
    begin = "ATTACH" if (folder / "metadata" / "default.sql").exists() else "CREATE"
    memory = "" if begin == "ATTACH" else " ENGINE = Memory"
    connection.query(f"{begin} DATABASE IF NOT EXISTS default{memory}", "Null")


def _connect() -> Any:
    try:
        import chdb  # noqa: PLC0415 - an extra, and 0.8 s to import
    except ImportError as error:
        raise Misconfigured(EXTRA) from error
    return chdb.connect


def _chdb_error() -> type[Exception]:
    from chdb import ChdbError  # noqa: PLC0415 - as above

    error: type[Exception] = ChdbError
    return error


def _set_statement(frame: Frame) -> bytes:
    comment = f"{frame.mark} {frame.settings.get('log_comment', '')}".rstrip()
    values = _OWN_SETTINGS | frame.settings | {"log_comment": comment}
    values |= {f"param_{name}": value for name, value in frame.params.items()}
    if frame.readonly:
        values["readonly"] = "2"
    pairs = ", ".join(f"{_name(name)} = {quoted(value)}" for name, value in values.items())
    return f"SET {pairs}".encode("utf-8", "surrogateescape")


def _name(name: str) -> str:
    if not _NAME.match(name):
        raise said(BAD_ARGUMENTS, f"Not a setting's name: {name!r}", "BAD_ARGUMENTS")
    return name


def quoted(value: str, quote: str = "'") -> str:
    """The value as a literal of SQL, or as a name between backticks."""
    escaped = value.replace("\\", "\\\\").replace(quote, "\\" + quote)
    return f"{quote}{escaped}{quote}"
