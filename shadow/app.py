"""The proxy: a configuration and its ports become a running relay with its mirror."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import signal
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from shadow.config import config_hash
from shadow.config.choice import Inside
from shadow.mirror.mirror import Mirror
from shadow.mirror.tap import Tap
from shadow.ports import Ports
from shadow.relay.downstream import Downstream
from shadow.relay.forwarding import Forwarding, needed
from shadow.relay.pool import Pool
from shadow.relay.relay import Relay
from shadow.relay.sockets import keep_alive
from shadow.relay.waits import Waits

if TYPE_CHECKING:
    from shadow.config import Config

__all__ = ["Ports", "Proxy", "serve", "until_signalled"]

BACKLOG: Final = 4096
TICK_S: Final = 0.1
"""The one coarse clock for deadlines and idle connections."""
IDLE_GRACE_S: Final = 1.0
"""How long a drain leaves idle connections open: a gateway may be writing on one just then, and a
request that meets a closing connection is a 502 or 503; its answer says `Connection: close`."""
ARMS_NAMES_S: Final = 1.0
"""How long a start waits for the arms' names; the primary's may take its connect timeout."""
CUT_S: Final = 1.0
"""How long connections that were cut may take to end."""


class Proxy:
    """One worker. `start`, then `drain` (or `serve`, which does both around the signals)."""

    def __init__(self, config: Config, ports: Ports) -> None:
        """Wire everything; nothing listens yet.

        Raises:
            ConfigError: a TLS file cannot be used.
        """
        self.config = config
        self.totals = ports.totals
        self.mirror = Mirror(config, config_hash(config), ports)
        pool = _primary_pool(config, ports)
        self.relay = Relay(
            pool,
            self.mirror,
            config.limits,
            ports.totals,
            config.retry_stale,
            self.mirror.selection,
            self.mirror.selection.methods,
        )
        self._tap: Tap | None = None
        if config.attach == "tap":
            self._tap = Tap(config.primary, self.relay, config.workers)
            self.relay.carry = self._tap.tapped
            self.mirror.cuts.watch(self._tap.open)
        elif needed(config.primary):
            self.relay.forwarding = Forwarding(config.primary, pool.authority)
        self._waits = Waits(self.relay, config.limits)
        self._server: asyncio.Server | None = None
        self._tick: asyncio.TimerHandle | None = None
        self._quiet = asyncio.Event()

    @property
    def port(self) -> int:
        """The port that it listens on; with `listen: …:0` the system chose it."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be listened on.
        """
        await self._first_addresses()
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Downstream(self.relay),
            self.config.listen.host,
            self.config.listen.port,
            backlog=BACKLOG,
            reuse_port=self.config.workers > 1,
        )
        for listener in self._server.sockets:
            keep_alive(listener)  # what is accepted inherits it
        self._on_tick()

    async def drain(self, timeout_s: float | None = None) -> None:
        """Stop accepting, let streams end for `timeout_s` (the configuration's), cut the rest."""
        self.relay.draining = self.mirror.draining = True
        self.relay.client_closed = self._closed
        if self._server is not None:
            self._server.close()
        wait_s = self.config.drain if timeout_s is None else timeout_s
        grace_s = min(IDLE_GRACE_S, wait_s)
        await self._until_quiet(grace_s)
        for client in list(self.relay.clients):
            client.drain()
        await self._until_quiet(wait_s - grace_s)
        for client in list(self.relay.clients):
            client.cut()
        await self._until_quiet(CUT_S)
        if self._tap is not None:
            self._tap.shut_down()
        self.mirror.shut_down()
        if self._tick is not None:
            self._tick.cancel()
        await self.relay.pool.close()
        await self.mirror.close()
        if self._server is not None:
            await self._server.wait_closed()

    async def _first_addresses(self) -> None:
        """Give the first look-ups a moment, so that the first request finds an address."""
        primary = self.config.primary.connect_timeout
        await _first([self.relay.pool], primary)
        await _first([arm.pool for arm in self.mirror.arms], min(ARMS_NAMES_S, primary))

    def _on_tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._tick = loop.call_later(TICK_S, self._on_tick)
        now = monotonic_ns()
        self._waits.tick(now)
        self.relay.pool.sweep()
        try:
            if self._tap is not None:
                self._tap.expire(now)
            self.mirror.tick(now)
        except Exception as error:  # noqa: BLE001 mirror code must not stop the clock
            self.mirror.failed(error)

    def _closed(self) -> None:
        if not self.relay.clients:
            self._quiet.set()

    async def _until_quiet(self, timeout_s: float) -> None:
        if not self.relay.clients:
            return
        self._quiet.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._quiet.wait(), timeout_s)


async def _first(pools: list[Pool], seconds: float) -> None:
    waits = [pool.addresses.first.wait for pool in pools if not pool.addresses.first.is_set()]
    deadline = monotonic_ns() + int(seconds * 1e9)
    while waits and monotonic_ns() < deadline:
        waits = [wait for wait in waits if not wait(0)]
        await asyncio.sleep(0.01)


def _primary_pool(config: Config, ports: Ports) -> Pool:
    """Inline production itself, whose answers are sacred; tapped one more arm."""
    primary, tapped = config.primary, config.attach == "tap"
    inside = Inside(config.networks).judge(primary.url)
    return Pool(
        "primary",
        primary,
        config.limits.header_bytes,
        ports.lookup,
        sacred=not tapped,
        inside=inside if tapped and not primary.allow_external else None,
    )


async def serve(config: Config, ports: Ports, started: asyncio.Event | None = None) -> None:
    """Run one worker until SIGTERM or SIGINT, then drain; a second signal ends at once.

    `started` is set once it listens. The publisher is the caller's to close afterwards.

    Raises:
        ConfigError: a TLS file cannot be used.
        OSError: the address cannot be listened on.
    """
    await until_signalled(Proxy(config, ports), started or asyncio.Event())


async def until_signalled(proxy: Proxy, started: asyncio.Event) -> None:
    """Start it, wait for a signal, drain it, or end it at the second signal."""
    stop, at_once = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        (at_once if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    try:
        _allow_open_files()
        await proxy.start()
        gc.freeze()  # what was imported is not walked again
        started.set()
        await stop.wait()
        drained = asyncio.ensure_future(proxy.drain())
        second = asyncio.ensure_future(at_once.wait())
        await asyncio.wait({drained, second}, return_when=asyncio.FIRST_COMPLETED)
        if not drained.done():
            drained.cancel()
            await proxy.drain(0)
        second.cancel()
        await asyncio.gather(drained, second, return_exceptions=True)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def _allow_open_files() -> None:
    """A stream needs two sockets and one more an arm: use what the system allows us."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
