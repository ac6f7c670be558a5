"""The collector's two ends: the stream that it reads, and the store that it fills."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from collector.collector import Letters
from collector.dead_letters import DeadLetters, TopicLetters
from collector.embedded import EmbeddedStore
from collector.folder import Misconfigured, unusable
from collector.migrate import Retention, migrate
from collector.patience import waits
from collector.settings import Embedded, Settings
from collector.status import Status
from collector.store import StoreSettings, connect
from collector.store_errors import NotClickHouse, StoreRefused, StoreUnavailable
from collector.writer import Writer
from shadow.stream import Consumer
from shadow.stream.embedded import EmbeddedConsumer
from shadow.stream.kafka import KafkaConsumerStream, KafkaDeadLetters, KafkaSettings

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

_STRANGERS = frozenset({192, 193, 194, 497, 516})
"""ClickHouse's codes for a user, a password or a right that is not the one."""


def consumer_of(settings: Settings) -> Consumer:
    """The stream, to be closed.

    Raises:
        Misconfigured: its folder cannot be used.
        StreamUnavailable: it cannot be read now.
    """
    if isinstance(settings.stream, KafkaSettings):
        return KafkaConsumerStream(settings.stream)
    if why := unusable(settings.stream):
        raise Misconfigured(f"stream.embedded: {why}")
    return EmbeddedConsumer(settings.stream, settings.group)


@contextmanager
def letters_of(settings: Settings, writer: Writer) -> Iterator[Letters]:
    """Where dead letters go: the store's table, and a topic where the stream has one."""
    table = DeadLetters(writer)
    if not isinstance(settings.stream, KafkaSettings):
        yield table
        return
    with closing(KafkaDeadLetters(settings.stream)) as topic:
        yield TopicLetters(topic, table)


@contextmanager
def store_of(
    settings: Settings, status: Status, sleep: Callable[[float], None]
) -> Iterator[Client]:
    """A client of the migrated store; `status` says while it is away, `sleep` waits for it."""
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


def read_from(settings: Settings) -> str:
    """The stream, for a person."""
    stream = settings.stream
    if isinstance(stream, KafkaSettings):
        return f"{stream.address}, topic {stream.topic}, group {stream.group}"
    return str(stream)


def stored_in(settings: Settings) -> str:
    """The store, for a person."""
    store = settings.store
    if isinstance(store, Embedded):
        host, port = store.listen
        return f"{store.folder}, database {store.database}, served at {host}:{port}"
    return f"{store.url}, database {store.database}"
