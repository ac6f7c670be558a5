"""Kafka's reading end: one member of a group, which commits by hand.

Rules:

1. A revocation's callback runs inside `poll`, in the thread that polls (see `aside`).
2. A commit that meets a rebalance is sent again by the next poll, for the partitions that are
   still here; for those that are not, the records come again, to whoever has them now.
3. "Flush or clear" is about the whole open batch, while a cooperative rebalance takes some
   partitions only: after the callback those that stay go back to what was committed, so what was
   cleared comes again.
4. Nothing that can fail stands between the fetch and the return: a record that was fetched and not
   returned would be skipped by the next commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import (
    CommitFailedError,
    IllegalGenerationError,
    KafkaError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from kafka.future import Future
from kafka.net.compat import KafkaNetClient

from shadow.stream import Delivered, Partition, StreamUnavailable
from shadow.stream.kafka.aside import Aside, Listener
from shadow.stream.kafka.connect import explained, opened
from shadow.stream.kafka.settings import KafkaSettings
from shadow.stream.kafka.topics import ensure_topic

FETCH_BYTES = 16 * 2**20
SESSION_MS = 15_000
HEARTBEAT_MS = 1_000
"""How soon a member hears of a rebalance."""
_MOVED_ON = (
    CommitFailedError,
    IllegalGenerationError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
Revoked = Callable[[Collection[Partition]], None]


class KafkaConsumerStream:
    """See `shadow.stream.Consumer`. For one thread. It connects and joins at the first poll.

    A partition is named TOPIC-NUMBER.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings, self._aside = settings, Aside()
        self._kafka: KafkaConsumer | None = None
        self._beneath: KafkaNetClient | None = None
        self._pending: dict[TopicPartition, int] = {}
        self._leaving: set[TopicPartition] = set()
        self._read: dict[TopicPartition, int] = {}
        """The next offset of what was given to the caller."""
        self._done: dict[TopicPartition, int] = {}
        """The next offset of what the caller has done with."""
        self._revoked: Revoked = lambda _partitions: None
        self._alive_at = 0.0

    def poll(self, max_records: int, timeout: float) -> Sequence[Delivered]:
        """Up to `max_records`, each partition in order, waiting `timeout` seconds at most.

        A first poll may take `connect_timeout` instead; a revocation's callback its own time.

        Raises:
            StreamUnavailable: no connection, no topic, or no broker answers any more.
        """
        kafka = self._connected()
        with self._translated():
            self._commit_pending(kafka)
            wait_ms = int(timeout * 1000)
            found = self._aside.run(lambda: kafka.poll(timeout_ms=wait_ms, max_records=max_records))
        if not found:
            self._check_alive()
        for place, records in found.items():
            self._done.setdefault(place, records[0].offset)
            self._read[place] = records[-1].offset + 1
        return [
            Delivered(_name(place), record.offset, record.key or b"", record.value or b"")
            for place, records in found.items()
            for record in records
        ]

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Everything before `offsets[partition]` is done. Blocks up to `connect_timeout`.

        What is said of partitions that are not ours any more is ignored: their next reader
        begins at the last commit that came in time.

        Raises:
            StreamUnavailable: the brokers did not take it.
        """
        if self._kafka is None:
            return
        ours = self._kafka.assignment() | self._leaving
        places = {_place(partition): offset for partition, offset in offsets.items()}
        mine = {place: offset for place, offset in places.items() if place in ours}
        self._pending |= mine
        self._done |= mine
        with self._translated():
            self._commit_pending(self._kafka)

    def on_revoked(self, callback: Revoked) -> None:
        """`callback` runs inside `poll`, in its thread, before partitions go; it may commit."""
        self._revoked = callback

    def close(self) -> None:
        """Leave the group; nothing is committed that was not committed before."""
        self._revoked = lambda _partitions: None
        self._read.clear()
        kafka = self._kafka
        if kafka is not None:
            with suppress(KafkaError):  # the records come again
                self._commit_pending(kafka)
            with suppress(KafkaError):  # the group notices without our goodbye, later
                self._aside.run(lambda: kafka.close(autocommit=False, timeout_ms=3000))
        self._kafka = None
        self._aside.close()

    def _connected(self) -> KafkaConsumer:
        if self._kafka is None:
            ensure_topic(self._settings, self._settings.topic)
            kafka, self._beneath = opened(self._settings, KafkaConsumer, **self._options())
            kafka.subscribe([self._settings.topic], listener=Listener(self._hand_over))
            self._kafka, self._alive_at = kafka, time.monotonic()
        return self._kafka

    def _options(self) -> dict[str, object]:
        return {
            "group_id": self._settings.group,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "partition_assignment_strategy": [CooperativeStickyAssignor],
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "fetch_max_bytes": FETCH_BYTES,
            "allow_auto_create_topics": False,
            "metrics_enabled": False,
        }

    def _hand_over(self, revoked: Iterable[TopicPartition]) -> Future:
        places = set(revoked)
        return self._aside.hand_over(lambda: self._let_go(places), self._beneath)

    def _let_go(self, places: set[TopicPartition]) -> None:
        self._leaving = places
        try:
            self._revoked(sorted(_name(place) for place in places))
        finally:
            self._leaving = set()
            for place in places:
                for known in (self._pending, self._read, self._done):
                    known.pop(place, None)
            self._go_back()

    def _go_back(self) -> None:
        """Read again, of the partitions that stay, what the caller has not done with."""
        assert self._kafka is not None
        for place in self._kafka.assignment() & self._read.keys():
            if self._read[place] > self._done[place]:
                self._kafka.seek(place, self._done[place])
                self._read[place] = self._done[place]

    def _commit_pending(self, kafka: KafkaConsumer) -> None:
        wanted = {place: OffsetAndMetadata(at, "", -1) for place, at in self._pending.items()}
        try:
            kafka.commit(wanted, timeout_ms=int(self._settings.connect_timeout * 1000))
        except _MOVED_ON:
            return  # rule 2
        self._pending.clear()

    def _check_alive(self) -> None:
        """kafka-python's poll is as silent without a broker as without a record."""
        assert self._beneath is not None
        nodes = [broker.node_id for broker in self._beneath.cluster.brokers()]
        if any(self._beneath.connected(node) for node in nodes):
            self._alive_at = time.monotonic()
        elif time.monotonic() > self._alive_at + self._settings.connect_timeout:
            raise StreamUnavailable(f"{self._settings.address}: no broker answers any more")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except KafkaError as error:
            raise StreamUnavailable(f"{self._settings.address}: {explained(error)}") from error


def _name(place: TopicPartition) -> Partition:
    return f"{place.topic}-{place.partition}"


def _place(name: Partition) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))
