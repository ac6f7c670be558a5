"""`shadow collect`: the embedded store, its HTTP interface, and the loop that fills it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from collector.bad_ratio import TooManyBadValues
from collector.batch import BatchLimits
from collector.collector import Collector
from collector.dead_letters import DeadLetters
from collector.embedded import EmbeddedStore
from collector.migrate import MigrationError, Retention, migrate
from collector.store import StoreError, StoreUnavailable
from collector.writer import Writer
from shadow.stream import StreamUnavailable
from shadow.stream.embedded import EmbeddedConsumer

NICENESS = 10
"""Below the proxy's priority: it may share its cores with us."""

_MISTAKES = (StoreError, StreamUnavailable, MigrationError, TooManyBadValues)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a collector process needs to know; `shadow collect` makes it of the configuration."""

    stream: Path
    store: Path
    listen: tuple[str, int]
    database: str
    user: str
    password: str
    retention_bodies_s: float
    retention_measures_s: float
    capture: str
    batch: BatchLimits = field(default_factory=BatchLimits)
    group: str = "collector"
    drain_s: float = 10.0
    """Of the 15 s that a drain has; the rest is for the last insert and the store's closing."""


def run(settings: Settings) -> int:
    """Collect until SIGTERM or SIGINT, then drain. 0 after a drain, 1 after a bad world."""
    os.nice(NICENESS)
    with _stop_on_signals() as stopping:
        try:
            _collect(settings, stopping)
        except _MISTAKES as error:
            sys.stderr.write(f"shadow collect: {error}\n")
            return 1
    return 0


def _collect(settings: Settings, stopping: threading.Event) -> None:
    settings.stream.mkdir(parents=True, exist_ok=True)
    settings.store.mkdir(parents=True, exist_ok=True)
    retention = Retention(int(settings.retention_bodies_s), int(settings.retention_measures_s))
    with (
        closing(EmbeddedConsumer(settings.stream, settings.group)) as consumer,
        EmbeddedStore.open(
            settings.store, settings.listen, settings.database, settings.user, settings.password
        ) as store,
        closing(store.client()) as client,
    ):
        migrate(client, settings.database, retention)
        sleep = _sleep_until(stopping)
        writer = Writer(client, sleep=sleep)
        letters = DeadLetters(writer)
        collector = Collector(
            consumer, writer, letters, settings.capture, settings.batch, sleep=sleep
        )
        collector.run(stopping.is_set, settings.drain_s)


def _sleep_until(stopping: threading.Event) -> Callable[[float], None]:
    """A pause between two tries that a stop ends: a drain does not wait for a bad world.

    What is not committed then is read again by the next collector.
    """

    def sleep(seconds: float) -> None:
        if stopping.wait(seconds):
            raise StoreUnavailable("stopped while the store or the stream was away")

    return sleep


@contextmanager
def _stop_on_signals() -> Iterator[threading.Event]:
    """An event that the first SIGTERM or SIGINT sets; a second one ends the process at once."""
    stopping = threading.Event()

    def stop(number: int, _frame: object) -> None:
        if stopping.is_set():
            os._exit(128 + number)
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
