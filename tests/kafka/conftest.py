"""Settings for a topic of its own on the real broker, and ends that are closed."""

from __future__ import annotations

import gc
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from shadow.stream.kafka import KafkaSettings


@pytest.fixture(autouse=True)
def collected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """What a failed attempt left open, its log records hold, is gone before a stricter test runs."""
    yield
    caplog.get_records("call").clear()
    gc.collect()


@pytest.fixture
def settings(bootstrap) -> KafkaSettings:
    name = uuid.uuid4().hex
    return KafkaSettings(
        bootstrap,
        topic=f"shadow.test-{name}",
        dead_letter_topic=f"shadow.test-{name}.dead",
        partitions=3,
        create_topic=True,
        client_id=f"test-{name}",
        group=f"test-{name}",
    )


@pytest.fixture
def opened() -> Iterator[Callable]:
    """Give an end back when the test is over."""
    with ExitStack() as stack:
        yield lambda end: stack.enter_context(closing(end))


@pytest.fixture
def read_all():
    """Read `count` records of a consumer; fewer only when none comes for 10 s."""

    def read(consumer, count: int) -> list:
        found: list = []
        while len(found) < count and (more := consumer.poll(1000, 10.0)):
            found += more
        return found

    return read
