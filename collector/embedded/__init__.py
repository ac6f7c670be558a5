"""The embedded store: chDB in the collector's process, ClickHouse's HTTP interface in front."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from collector.embedded.bounds import readers_bounds
from collector.embedded.engine import Engine, Frame, engine_errors
from collector.embedded.request import Access
from collector.embedded.server import serving
from collector.folder import Misconfigured, made_secret
from collector.store import StoreSettings, open_folder

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from clickhouse_connect.driver.client import Client

__all__ = ["Access", "EmbeddedStore", "Engine", "serving"]


@dataclass
class EmbeddedStore:
    """An opened folder, served by a thread of this process until the context ends.

    ```
    with EmbeddedStore.open(folder, ("127.0.0.1", 8123), "shadow", "default", "") as store:
        client = store.client()
    ```

    Attributes:
        url: where the HTTP interface listens, for `StoreSettings`.
    """

    engine: Engine
    folder: Path
    database: str
    access: Access
    url: str = ""
    _thread: threading.Thread | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    _stopped: asyncio.Event | None = None
    _ready: threading.Event = field(default_factory=threading.Event)
    _failure: Exception | None = None
    # An unclosed client keeps the engine, and so the folder; those that are left are closed here.
    _clients: weakref.WeakSet[Client] = field(default_factory=weakref.WeakSet)

    @classmethod
    def open(
        cls, folder: Path, listen: tuple[str, int], database: str, user: str, password: str
    ) -> Self:
        """Open the folder, create the database, and serve it at `listen` (port 0: any free one).

        Without a password the interface is open to read, and who writes shows the folder's secret
        (`collector.folder.secret_of`), made at the first start.

        Raises:
            Misconfigured: the folder cannot be used, chdb is missing, the address cannot be
                listened on, or the database is the engine's own `default`.
            StoreUnavailable: another process has the folder.
        """
        if database == "default":
            why = "is the engine's own and cannot be served; choose another name, such as shadow"
            raise Misconfigured(f"store.database: default {why}")
        engine = Engine.open(folder)
        try:
            access = _access(folder, user, password)
            with engine.handle(Frame(params={"name": database})) as handle, engine_errors():
                handle.query("CREATE DATABASE IF NOT EXISTS {name:Identifier}", "Null")
            store = cls(engine, folder, database, access)
            store._start(listen)
        except BaseException:
            engine.close()
            raise
        return store

    @property
    def settings(self) -> StoreSettings:
        """How to write to it over HTTP."""
        return StoreSettings(self.url, self.database, self.access.user, self.access.password)

    def client(self) -> Client:
        """An in-process client of this store; of each thread its own. Close it when done."""
        client = open_folder(self.folder, self.database)
        self._clients.add(client)
        return client

    def close(self) -> None:
        """End the interface, close the clients that are left, and let go of the folder."""
        if self._thread is not None and self._loop is not None and self._stopped is not None:
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join()
        for client in list(self._clients):
            client.close()
        self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _start(self, listen: tuple[str, int]) -> None:
        run = lambda: asyncio.run(self._serve(*listen))  # noqa: E731
        self._thread = threading.Thread(target=run, name="store-http")
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            why = _reason(self._failure)
            message = f"store.listen: {listen[0]}:{listen[1]}: {why}"
            raise Misconfigured(message) from self._failure

    async def _serve(self, host: str, port: int) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with serving(self.engine, host, port, self.access) as bound:
                self.url = f"http://{f'[{bound[0]}]' if ':' in bound[0] else bound[0]}:{bound[1]}"
                self._ready.set()
                await self._stopped.wait()
        except OSError as error:
            self._failure = error
        finally:
            self._ready.set()


def _access(folder: Path, user: str, password: str) -> Access:
    if password:
        return Access(user, password)
    try:
        return Access(user, made_secret(folder), open_reading=True, bounds=readers_bounds())
    except OSError as error:
        message = f"store.embedded: the secret in {folder}: {error.strerror or error}"
        raise Misconfigured(message) from error


def _reason(error: Exception) -> str:
    """In the system's words, which are short; a name's look-up has numbers of its own."""
    number = (isinstance(error, OSError) and error.errno) or 0
    if number == errno.EADDRINUSE:
        return f"{os.strerror(number)}; stop what listens there, or choose another port"
    return os.strerror(number) if number > 0 else str(error)
