"""Connections to one upstream: idle ones are reused last-in first-out, new ones are made aside."""

from __future__ import annotations

import asyncio
import ssl
from time import monotonic_ns
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from shadow.config.document import ConfigError
from shadow.relay.addresses import Addresses, Judge, Lookup, look_up
from shadow.relay.patience import patience
from shadow.relay.sockets import keep_alive
from shadow.relay.turns import Turns
from shadow.relay.upstream import Upstream

if TYPE_CHECKING:
    from shadow.config.upstream import Tls
    from shadow.config.upstream import Upstream as Settings
    from shadow.relay.owner import Owner

IDLE_CONNECTIONS: Final = 1024
"""More idle connections than this are not kept."""
WRITE_BUFFER_BYTES: Final = 256 * 1024
LEAVE_NS: Final = 10 * 10**9
"""So long an answered primary may take to read the rest of its request."""


class Pool:
    """All connections of the proxy to one upstream."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        header_bytes: int,
        lookup: Lookup = look_up,
        turns: Turns | None = None,
        *,
        sacred: bool = True,
        inside: Judge | None = None,
    ) -> None:
        """Connect nothing yet. `turns` is what pools share that may wait for each other.

        `sacred`: its answers pass whatever they are; otherwise those that cost the loop more than
        they can be worth are given up, as malformed. `inside`: which addresses may be connected to.
        """
        parts = urlsplit(settings.url)
        assert parts.hostname is not None
        port = parts.port or (443 if parts.scheme == "https" else 80)
        self.name = name
        self.authority = parts.netloc.encode("latin-1", "replace")
        self.prefix = parts.path.encode("latin-1", "replace")
        self.header_bytes = header_bytes
        self.turns = turns or Turns()
        self.sacred = sacred
        self.addresses = Addresses(parts.hostname, port, lookup, inside)
        self._port = port
        self._settings = settings
        self._ssl = _context(name, settings.tls) if parts.scheme == "https" else None
        self._server_name = settings.tls.server_name or parts.hostname if self._ssl else None
        self._idle: dict[Upstream, None] = {}  # in the order of their releases
        self._open: set[Upstream] = set()
        self._leaving: dict[Upstream, int] = {}
        """Closed, and not taken to the end; until when each may be (monotonic, ns)."""
        self._connecting: dict[Owner, asyncio.Task[None]] = {}
        self._idle_ns = int(settings.idle_timeout * 1e9)

    def take(self) -> Upstream | None:
        """An idle connection that is young enough, or None: then `connect`."""
        oldest = monotonic_ns() - self._idle_ns
        while self._idle:
            connection = self._idle.popitem()[0]
            if connection.idle_since >= oldest and not connection.transport.is_closing():
                connection.reused = True
                return connection
            connection.close()
        return None

    def connect(self, owner: Owner) -> None:
        """Make a connection; the owner is told `connected` or `connect_failed`."""
        task = asyncio.get_running_loop().create_task(
            self._connect(owner), name=f"connect {self.name}"
        )
        self._connecting[owner] = task

    def give_up(self, owner: Owner) -> None:
        """The owner waits no longer."""
        task = self._connecting.pop(owner, None)
        if task is not None:
            task.cancel()

    def release(self, connection: Upstream) -> None:
        """Keep the connection for a next request, if it is fit for one."""
        connection.owner = None
        connection.capture = None
        transport = connection.transport
        fit = connection.reusable and len(self._idle) < IDLE_CONNECTIONS
        if not fit or transport.is_closing() or transport.get_write_buffer_size():
            self.leave(connection)  # what is not taken yet would stand before a next request
            return
        connection.read_on()
        connection.idle_since = monotonic_ns()
        self._idle[connection] = None

    def leave(self, connection: Upstream) -> None:
        """Close it. A close waits for who does not read: production's bytes have `LEAVE_NS` to be
        taken, an arm's none, or it could keep any number of connections, and their requests.
        """
        if not connection.transport.get_write_buffer_size():
            connection.transport.close()
        elif self.sacred:
            connection.transport.close()
            self._leaving.setdefault(connection, monotonic_ns() + LEAVE_NS)
        else:
            connection.transport.abort()

    def forget(self, connection: Upstream) -> None:
        """The connection is gone."""
        self._open.discard(connection)
        self._idle.pop(connection, None)
        self._leaving.pop(connection, None)

    def sweep(self) -> None:
        """Close what was idle too long, or takes too long to leave; called by the proxy's clock."""
        now = monotonic_ns()
        for connection, until_ns in list(self._leaving.items()):
            if until_ns > now:
                break
            connection.transport.abort()
        for connection in list(self._idle):
            if connection.idle_since >= now - self._idle_ns:
                return
            del self._idle[connection]
            connection.close()

    async def close(self) -> None:
        """End every connection at once."""
        self.addresses.close()
        tasks = list(self._connecting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in list(self._open):
            connection.abort()
        while self._open:  # noqa: ASYNC110 their ends come with the loop's next turns
            await asyncio.sleep(0)

    async def _connect(self, owner: Owner) -> None:
        """Try the addresses in turn, each with its share of the connect timeout."""
        host = self.addresses.host
        failure = self.addresses.refused or f"its name {host} is not resolved yet"
        connection: Upstream | None = None
        addresses = self.addresses.rotation()
        for address in addresses:
            try:
                async with patience(self._settings.connect_timeout / len(addresses)):
                    connection = await self._open_one(address)
                break
            except TimeoutError:
                self.addresses.shun(address)
                failure = f"{address}: no connection within {self._settings.connect_timeout:g} s"
            except OSError as error:  # ssl.SSLError is one
                self.addresses.shun(address)
                failure = f"{address}: {error.strerror or error}"
        if self._connecting.pop(owner, None) is None:  # it gave up in the meantime
            if connection is not None:
                connection.abort()
        elif connection is None or connection.transport.is_closing():
            owner.connect_failed(failure)
        else:
            owner.connected(connection)

    async def _open_one(self, address: str) -> Upstream:
        _, connection = await asyncio.get_running_loop().create_connection(
            self._new, address, self._port, ssl=self._ssl, server_hostname=self._server_name
        )
        connection.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        keep_alive(connection.transport.get_extra_info("socket"))
        self._open.add(connection)
        return connection

    def _new(self) -> Upstream:
        return Upstream(self)


def _context(name: str, tls: Tls) -> ssl.SSLContext:
    """How an https upstream is verified.

    Raises:
        ConfigError: a PEM file cannot be used.
    """
    at = f"{name}.tls.ca: {tls.ca}"
    try:
        context = ssl.create_default_context(cafile=str(tls.ca) if tls.ca else None)
        context.set_alpn_protocols(["http/1.1"])
        at = f"{name}.tls.certificate: {tls.certificate}"
        if tls.certificate is not None:
            if tls.key is not None and not tls.key.is_file():
                at = f"{name}.tls.key: {tls.key}"  # the loader does not say which of the two it was
            context.load_cert_chain(tls.certificate, tls.key)
    except OSError as error:
        raise ConfigError(f"{at}: {error.strerror or error}") from None
    return context
