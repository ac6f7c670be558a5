"""Three nodes, and the leader killed in the middle: idempotence and acks=all keep their word."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from kafka import KafkaAdminClient

from shadow.stream import Message
from shadow.stream.kafka import KafkaConsumerStream, KafkaProducerStream, KafkaSettings

pytestmark = pytest.mark.kafka
RECORDS, AT_ONCE = 6_000, 50


@pytest.fixture
def three(own_broker, tmp_path):
    cluster = own_broker(tmp_path, 3)
    yield cluster
    cluster.close()


def leader(cluster, topic: str) -> int:
    admin = KafkaAdminClient(bootstrap_servers=list(cluster.bootstrap))
    try:
        return admin.describe_topics([topic])[0]["partitions"][0]["leader_id"]
    finally:
        admin.close()


def test_a_killed_leader_loses_and_doubles_nothing(three, opened, read_all):
    """6,000 records, the leader of a partition killed -9 at a third: no append fails, every record
    is read exactly once, each key in order."""
    settings = KafkaSettings(three.bootstrap, "t", partitions=2, create_topic=True)
    producer = opened(KafkaProducerStream(settings))
    third = threading.Event()

    def kill() -> None:
        assert third.wait(60)
        three.nodes[leader(three, "t") - 1].kill()

    killing = threading.Thread(target=kill)
    killing.start()
    for first in range(0, RECORDS, AT_ONCE):
        numbers = range(first, first + AT_ONCE)
        producer.append([Message(b"%d" % (n % 7), b"%d" % n) for n in numbers])
        if first >= RECORDS // 3:
            third.set()
            if first < RECORDS // 3 + AT_ONCE:
                killing.join(0.2)  # so that the kill falls between two appends or into one
    killing.join(60)
    assert sum(node.process is not None for node in three.nodes) == 2
    found = read_all(opened(KafkaConsumerStream(settings)), RECORDS)
    found += opened(KafkaConsumerStream(settings)).poll(1, 0.0)
    assert Counter(int(record.value) for record in found) == Counter(range(RECORDS))
    for key in {record.key for record in found}:
        numbers = [int(record.value) for record in found if record.key == key]
        assert numbers == sorted(numbers)
