"""The streams that run the contract's suite: one factory each."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from shadow.stream import Consumer, Delivered, Producer
from shadow.stream.embedded import EmbeddedConsumer, EmbeddedProducer


class Streams(Protocol):
    """One stream of its own for one test; both ends are closed at the test's end at the latest."""

    def producer(self, worker: str = "proxy-0") -> Producer: ...

    def consumer(self, group: str = "collector") -> Consumer: ...


class EmbeddedStreams:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def producer(self, worker: str = "proxy-0") -> Producer:
        return EmbeddedProducer(self.folder, worker)

    def consumer(self, group: str = "collector") -> Consumer:
        return EmbeddedConsumer(self.folder, group)


class KafkaStreams:
    """A topic of its own on a real broker."""

    def __init__(self, bootstrap: tuple[str, ...]) -> None:
        from shadow.stream.kafka import KafkaConsumerStream, KafkaProducerStream, KafkaSettings

        topic = f"shadow.contract-{uuid.uuid4().hex}"
        self.settings = KafkaSettings(bootstrap, topic, partitions=3, create_topic=True)
        self._producer, self._consumer = KafkaProducerStream, KafkaConsumerStream

    def producer(self, worker: str = "proxy-0") -> Producer:
        return self._producer(replace(self.settings, client_id=worker))

    def consumer(self, group: str = "collector") -> Consumer:
        group = f"{group}-{self.settings.topic}"
        return self._consumer(replace(self.settings, group=group))


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def streams(request: pytest.FixtureRequest, tmp_path: Path) -> Streams:
    if request.param == "kafka":
        return KafkaStreams(request.getfixturevalue("bootstrap"))
    return EmbeddedStreams(tmp_path / "stream")


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    """`ends.enter_context(closing(end))` closes what a test opened."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def read_all(ends):
    """Read `count` records of a consumer, in the order they came; fewer only when none is left."""

    def read(consumer: Consumer, count: int, at_once: int = 1000) -> list[Delivered]:
        found: list[Delivered] = []
        while len(found) < count and (more := consumer.poll(at_once, 10.0)):
            found += more
        return found

    return read


@pytest.fixture
def opened(ends):
    """Give an end back when the test is over."""
    return lambda end: ends.enter_context(closing(end))
