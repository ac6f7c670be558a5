"""`shadow proxy`: one worker's process. What it starts, in which order it ends.

In: health port, ledger, publisher, relay. Out (SIGTERM, SIGINT): clients' streams, then the
publisher for 15 s, then the ledger's place.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING

import structlog
import uvloop

from shadow.app import Ports, Proxy, until_signalled
from shadow.capture.shrink import shrink_value
from shadow.config import Config, ConfigError, config_hash
from shadow.config.ends import EmbeddedStream
from shadow.config.kafka import KafkaStream
from shadow.config.units import Address
from shadow.control import bind, health_app, readiness, serve_health, why_not
from shadow.exchange import Accounting, Exchange, MalformedRecord, decode
from shadow.exposition import exposition
from shadow.fault import say_unhandled
from shadow.locks import PlaceTaken
from shadow.publish.accounting import Ledger
from shadow.publish.metrics import Totals
from shadow.publish.publisher import Publisher
from shadow.redaction import veil_of
from shadow.steering.live import live
from shadow.steering.switch_figures import switch_figures
from shadow.stream import Message, Producer, StreamUnavailable
from shadow.stream.embedded import EmbeddedProducer
from shadow.stream.embedded.folder import writer_place
from shadow.stream.handover import HandoverProducer
from shadow.stream.kafka import KafkaProducerStream
from shadow.stream.spill import Spill

if TYPE_CHECKING:
    from shadow.redaction.records import Veil

log = structlog.get_logger("shadow.proxy")

IN_MEMORY = Path("/dev/shm")  # noqa: S108 a folder of our own in it, files 0600
"""Where counters live when the disk has no room: production is served all the same."""
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS}
PUBLISHER_SECONDS = 15.0
SWITCH_SECONDS = 0.0005
"""How long the sender thread may keep the interpreter from the loop; Python's default is 5 ms."""
INTERRUPTED = 130


def run(config: Config, worker: str, path: Path | None = None) -> int:
    """Run one worker until it is told to end, then drain.

    Args:
        config: what it is told.
        worker: its place.
        path: the configuration's file, to hear of its changes.

    Returns:
        0; 130 where a second signal cut a stream.

    Raises:
        ConfigError: it cannot start as it was told to: a port or the worker's place is taken, a
            folder or a TLS file cannot be used.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    _refuse_a_second_writer(config, worker)
    ledger, dead = _ledger(
        config, worker
    )  # before the ports: it names a proxy that outlived its supervisor
    with closing(_bound(config, worker, ledger)) as health:
        stream = _Stream(config, worker, ledger)
        publisher = Publisher(stream.connect, ledger, config.limits.queue_bytes, dead)
        try:
            cut = uvloop.run(_serve(config, path, ledger, publisher, stream, health))
        finally:
            ledger.close(published=publisher.close(PUBLISHER_SECONDS))
    return INTERRUPTED if cut else 0


async def _serve(
    config: Config,
    path: Path | None,
    ledger: Ledger,
    publisher: Publisher,
    stream: _Stream,
    bound: socket,
) -> bool:
    """Whether a second signal cut a stream."""
    asyncio.get_running_loop().set_exception_handler(say_unhandled)
    totals, started = Totals(), asyncio.Event()
    veil = veil_of(config.redaction, publisher.hurried)
    further = {
        **stream.figures(),
        **_redactions(veil),
        "shadow_low_water_age_ms": lambda: _low_water_age_ms(ledger),
        "shadow_loop_tasks": lambda: len(asyncio.all_tasks()),
    }
    proxy = _Said(config, Ports(ledger, publisher, totals, veil=veil))
    mirror = proxy.mirror
    render = exposition(ledger, publisher, totals, further, lambda: switch_figures(mirror))

    def ready() -> tuple[int, dict[str, object]]:
        fault = mirror.switch.fault()
        return readiness(publisher, listening=started.is_set(), away=stream.away, fault=fault)

    health = await serve_health(health_app(ready, render), bound)
    saying = asyncio.ensure_future(_say(proxy, started))
    try:
        with live(mirror, config, path):
            await until_signalled(proxy, started)
    except OSError as error:
        if started.is_set():
            raise
        raise ConfigError(f"listen: {config.listen}: {why_not(error)}") from error
    finally:
        saying.cancel()
        await health.cleanup()
    return proxy.cut_at_once


class _Said(Proxy):
    """Says what its drain waits for, and what became of it."""

    cut_at_once = False

    async def drain(self, timeout_s: float | None = None) -> None:
        totals, at_once = self.totals, timeout_s == 0
        before = totals.cut_by_drain
        most_s = self.config.drain if timeout_s is None else timeout_s
        log.info("draining", open_streams=totals.open_streams, at_most_s=most_s)
        await super().drain(timeout_s)
        cut = totals.cut_by_drain - before
        self.cut_at_once = at_once and cut > 0
        log.info("drained", streams_cut=cut)


async def _say(proxy: Proxy, started: asyncio.Event) -> None:
    await started.wait()
    log.info(standing(proxy.config, proxy.port))


def standing(config: Config, port: int) -> str:
    """One line that says where the proxy listens and where requests go."""
    arms = ", ".join(
        f"{name} ({arm.role}, {arm.sample:g}) {arm.url}" for name, arm in config.arms.items()
    )
    where = Address(config.listen.host, port)
    tapped = " (tapped)" if config.attach == "tap" else ""
    return f"listening on {where}{tapped}; primary {config.primary.url}; arms: {arms or 'none'}"


class _Stream:
    """Makes the stream's producer and reads its figures, which any thread may."""

    def __init__(self, config: Config, worker: str, ledger: Ledger) -> None:
        self._measures = config.measure_folder if config.capture == "measures" else None
        self._handover: HandoverProducer | None = None
        self._settings, self._worker, self._ledger = config.stream, worker, ledger
        self._embedded: EmbeddedProducer | None = None
        self._spill: Spill | None = None

    def connect(self) -> Producer:
        settings, worker = self._settings, self._worker
        if self._measures is not None:  # what stands on a disk was measured before
            self._handover = HandoverProducer(self._measures, worker)
            return self._handover
        if isinstance(settings, KafkaStream):
            remote, said = KafkaProducerStream(settings.settings()), settings.kafka
            folder, most = said.spill / worker, said.spill_bytes
            self._spill = Spill(remote, folder, worker, most, shrink_value, self._refused)
            return self._spill
        self._embedded = EmbeddedProducer(
            settings.embedded, worker, settings.max_bytes, settings.max_age
        )
        return self._embedded

    def _refused(self, message: Message) -> None:
        """It was captured to the disk, and never comes to the stream: a drop of this boot's."""
        with contextlib.suppress(MalformedRecord):
            record = decode(message.value)
            if isinstance(record, Exchange) and record.boot_id == self._ledger.boot_id:
                self._ledger.dropped_sequence()
                self._ledger.add(record.arm, "dropped", "record_too_large")

    @property
    def away(self) -> str | None:
        """Why what is published waits on this machine, in one line; None: it does not."""
        return self._spill.last_error if self._spill else None

    def figures(self) -> dict[str, Callable[[], int]]:
        """Name → reading, for /metrics."""
        if self._measures is not None:
            return {
                "shadow_spooled_records": lambda: self._handover.spooled() if self._handover else 0
            }
        if isinstance(self._settings, KafkaStream):
            return {
                "shadow_spooled_records": lambda: self._spill.spooled() if self._spill else 0,
                "shadow_stream_refused_total": lambda: (
                    self._spill.refused_total if self._spill else 0
                ),
            }
        return {
            "shadow_stream_bytes": lambda: self._embedded.size_bytes if self._embedded else 0,
            "shadow_stream_expired_unread_total": lambda: (
                self._embedded.expired_unread if self._embedded else 0
            ),
        }


def _bound(config: Config, worker: str, ledger: Ledger) -> socket:
    """The health port; the n-th worker's is n above the configured one. Without it, no place."""
    host, port = config.admin.health.host, config.admin.health.port
    number = int(worker) if worker.isdigit() and port else 0
    try:
        return bind(Address(host, port + number))
    except OSError as error:
        ledger.close(published=True)  # nothing was counted yet
        raise ConfigError(f"admin.health: {error}") from error


def _ledger(config: Config, worker: str) -> tuple[Ledger, list[Accounting]]:
    said = worker, config.experiment, config_hash(config), os.uname().nodename
    try:
        return Ledger.open(config.state, *said)
    except PlaceTaken as error:
        raise ConfigError(f"state: {error}") from error
    except OSError as error:
        if error.errno not in _DISK:
            raise ConfigError(f"state: {config.state}: {error.strerror or error}") from error
        log.warning(
            "no room for counters; kept in memory", folder=str(config.state), why=str(error)
        )
        return Ledger.open(IN_MEMORY / f"shadow-{config.experiment}", *said)


def _refuse_a_second_writer(config: Config, worker: str) -> None:
    """Another proxy on the same partition: nothing of ours could ever be stored there."""
    if not isinstance(config.stream, EmbeddedStream) or config.capture == "measures":
        return
    try:
        os.close(writer_place(config.stream.embedded, worker))
    except StreamUnavailable as error:
        if isinstance(error.__cause__, PlaceTaken):
            raise ConfigError(f"stream: {error}") from error


def _redactions(veil: Veil | None) -> dict[str, Callable[[], int]]:
    if veil is None:
        return {}
    totals = veil.redactor.totals
    return {
        "shadow_redactions_total": lambda: totals.total() - totals["withheld"],
        "shadow_withheld_total": lambda: totals["withheld"],
    }


def _low_water_age_ms(ledger: Ledger) -> int:
    now = time.time_ns()
    return (now - ledger.low_water(now)) // 1_000_000
