"""`shadow collect`: a store (the embedded one with its interface), and the loop that fills it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from collector.bad_ratio import BadRatio, TooManyBadValues
from collector.collector import Collector, Letters
from collector.dead_letters import DeadLetters, TopicLetters
from collector.embedded import EmbeddedStore
from collector.folder import Misconfigured, unusable
from collector.forgetful import ForgetfulWriter
from collector.migrate import MigrationError, Retention, migrate
from collector.patience import waits
from collector.settings import Embedded, Settings
from collector.status import STARTING, Status
from collector.store import StoreSettings, connect
from collector.store_errors import NotClickHouse, StoreError, StoreRefused, StoreUnavailable
from collector.writer import Writer
from shadow.stream import Consumer, StreamUnavailable
from shadow.stream.embedded import EmbeddedConsumer
from shadow.stream.kafka import KafkaConsumerStream, KafkaDeadLetters, KafkaSettings

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

log = structlog.get_logger("collector")

USAGE = 2
"""A mistake in the configuration; starting again does not mend it."""
BAD_WORLD = 75
"""EX_TEMPFAIL of sysexits.h: start it again. Never 1, which is a gate's reject."""
NICENESS = 10
"""Below the proxy's priority: it may share its cores with us."""


class Stopped(Exception):
    """Told to end while the store or the stream was away: what is not committed is read again."""


_STRANGERS = frozenset({192, 193, 194, 497, 516})
"""ClickHouse's codes for a user, a password or a right that is not the one."""
_MISTAKES = (StoreError, StreamUnavailable, MigrationError, TooManyBadValues)


def run(settings: Settings, status: Status | None = None) -> int:
    """Collect until SIGTERM or SIGINT, then drain.

    What cannot be reached is waited for, with backoff, and said in `status`.

    Returns:
        Exit status: 0 after a drain; 2 where the configuration cannot work on this machine; 75
        after a bad world that did not mend.
    """
    os.nice(NICENESS)
    status = status or Status()
    with stop_on_signals() as stopping:
        try:
            _collect(settings, status, stopping)
        except Stopped:
            return 0
        except Misconfigured as error:
            sys.stderr.write(f"shadow collect: {error}\n")
            return USAGE
        except _MISTAKES as error:
            sys.stderr.write(f"shadow collect: {error}\n")
            return BAD_WORLD
    return 0


def _collect(settings: Settings, status: Status, stopping: threading.Event) -> None:
    sleep = _sleep_until(stopping)
    with ExitStack() as stack:
        consumer = stack.enter_context(closing(_consumer(settings)))
        status.reason = f"{STARTING}: the store is being opened"
        client = stack.enter_context(_store(settings, status, sleep))
        cluster = settings.store.cluster if isinstance(settings.store, StoreSettings) else None
        writer = ForgetfulWriter(client, cluster=cluster, sleep=sleep, told=status.told)
        letters = stack.enter_context(_letters(settings, writer))
        collector = Collector(
            consumer,
            writer,
            letters,
            settings.capture,
            settings.batch,
            settings.count_tokens,
            ratio=BadRatio(least=settings.bad_records),
            status=status,
            sleep=sleep,
        )
        read = f"reading {_from(settings)}, storing in {_to(settings)}"
        status.reason = f"{STARTING}: {read}; no answer of the stream yet"
        log.info(read, capture=settings.capture)
        collector.run(stopping.is_set, settings.drain_s)


def _from(settings: Settings) -> str:
    stream = settings.stream
    if isinstance(stream, KafkaSettings):
        return f"{stream.address}, topic {stream.topic}, group {stream.group}"
    return str(stream)


def _to(settings: Settings) -> str:
    store = settings.store
    if isinstance(store, Embedded):
        host, port = store.listen
        return f"{store.folder}, database {store.database}, served at {host}:{port}"
    return f"{store.url}, database {store.database}"


def _consumer(settings: Settings) -> Consumer:
    if isinstance(settings.stream, KafkaSettings):
        return KafkaConsumerStream(settings.stream)
    if why := unusable(settings.stream):
        raise Misconfigured(f"stream.embedded: {why}")
    return EmbeddedConsumer(settings.stream, settings.group)


@contextmanager
def _letters(settings: Settings, writer: Writer) -> Iterator[Letters]:
    table = DeadLetters(writer)
    if not isinstance(settings.stream, KafkaSettings):
        yield table
        return
    with closing(KafkaDeadLetters(settings.stream)) as topic:
        yield TopicLetters(topic, table)


@contextmanager
def _store(settings: Settings, status: Status, sleep: Callable[[float], None]) -> Iterator[Client]:
    """A client of the migrated store."""
    store, retention = settings.store, _retention(settings)
    if isinstance(store, Embedded):
        with (
            EmbeddedStore.open(
                store.folder, store.listen, store.database, store.user, store.password
            ) as embedded,
            closing(embedded.client()) as client,
        ):
            migrate(client, store.database, retention)
            yield client
        return
    with closing(_server(store, status, sleep)) as client:
        migrate(client, store.database or "default", retention, cluster=store.cluster)
        yield client


def _server(store: StoreSettings, status: Status, sleep: Callable[[float], None]) -> Client:
    """A server's client; it is waited for as long as it takes.

    Raises:
        Misconfigured: it is no ClickHouse, or takes neither user nor password.
    """
    for wait in waits():
        try:
            return connect(replace(store, database=None))  # ours may be still to be made
        except StoreUnavailable as away:
            status.told(away)
        except StoreRefused as refused:
            if not isinstance(refused, NotClickHouse) and refused.code not in _STRANGERS:
                raise
            raise Misconfigured(f"store.clickhouse: {refused}") from refused
        sleep(wait)
    raise AssertionError("unreachable: waits never end")


def _retention(settings: Settings) -> Retention:
    return Retention(int(settings.retention_bodies_s), int(settings.retention_measures_s))


def _sleep_until(stopping: threading.Event) -> Callable[[float], None]:
    """A pause between two tries that a stop ends: a drain does not wait for a bad world.

    What is not committed then is read again by the next collector.
    """

    def sleep(seconds: float) -> None:
        if stopping.wait(seconds):
            raise Stopped

    return sleep


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
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
