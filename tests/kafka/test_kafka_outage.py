"""The broker away at the start and for a while: what waits on disk follows in order, by itself."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import closing

import pytest

from shadow.stream import Message, StreamUnavailable
from shadow.stream.kafka import KafkaConsumerStream, KafkaProducerStream, KafkaSettings
from shadow.stream.spill import Spill, unread

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def alone(own_broker, tmp_path_factory):
    cluster = own_broker(tmp_path_factory.mktemp("alone"))
    yield cluster
    cluster.close()


def drained(spill: Spill) -> None:
    deadline = time.monotonic() + 40
    while spill.spooled():
        assert time.monotonic() < deadline, spill.last_error
        time.sleep(0.02)


def test_an_outage_at_the_start_and_one_later_lose_nothing(alone, tmp_path, read_all, capsys):
    """Four stretches of records: away from the start, there, killed in the middle, there again.
    All are read, in order; a double is one that was stored and not acknowledged when it died."""
    settings = KafkaSettings(
        alone.bootstrap,
        "writer",
        partitions=2,
        create_topic=True,
        connect_timeout=2.0,
        append_timeout=4.0,
    )
    node, sent = alone.nodes[0], 0
    node.kill(signal.SIGTERM)
    consumer = KafkaConsumerStream(settings)
    with closing(consumer), pytest.raises(StreamUnavailable, match="could not connect"):
        consumer.poll(1, 0.1)

    spill = Spill(KafkaProducerStream(settings), tmp_path / "spill", "w")

    def append(count: int) -> None:
        nonlocal sent
        for _ in range(count):
            spill.append([Message(b"same", b"%d" % n) for n in range(sent, sent + 10)])
            sent += 10

    append(50)
    assert spill.spooled() == 500
    assert "could not connect or log in" in spill.last_error
    node.start()
    alone.await_ready()
    append(20)
    drained(spill)
    assert spill.last_error is None
    append(20)
    assert spill.spooled() == 0
    node.kill()
    append(50)
    assert spill.spooled() == 500
    node.start()
    alone.await_ready()
    drained(spill)
    append(10)
    spill.close()
    assert unread(tmp_path / "spill", "w") == 0

    with closing(KafkaConsumerStream(settings)) as consumer:
        found = read_all(consumer, sent)
        while more := consumer.poll(1000, 1.0):
            found += more
    values = [int(record.value) for record in found]
    assert list(dict.fromkeys(values)) == list(range(sent))
    with capsys.disabled():
        sys.stdout.write(f" [{sent} records, {len(values) - sent} doubled] ")


def test_a_reader_hears_of_an_outage_and_goes_on_after_it(alone, opened):
    """kafka-python's poll is silent then; ours says that no broker answers, and recovers."""
    settings = KafkaSettings(alone.bootstrap, "reader", create_topic=True, connect_timeout=2.0)
    producer, consumer = (
        opened(KafkaProducerStream(settings)),
        opened(KafkaConsumerStream(settings)),
    )
    producer.append([Message(b"k", b"1")])
    found = consumer.poll(10, 20.0)
    assert [record.value for record in found] == [b"1"]
    consumer.commit({found[0].partition: found[0].offset + 1})
    alone.nodes[0].kill()
    said = None
    while said is None:
        try:
            assert not consumer.poll(10, 0.2)
        except StreamUnavailable as error:
            said = str(error)
    assert said.startswith(f"kafka at {alone.bootstrap[0]}: ")
    alone.nodes[0].start()
    alone.await_ready()
    producer.append([Message(b"k", b"2")])
    found, deadline = [], time.monotonic() + 40
    while not found and time.monotonic() < deadline:
        try:
            found = consumer.poll(10, 1.0)
        except StreamUnavailable:
            continue
    assert [record.value for record in found] == [b"2"]
