"""Dead letters: original key and bytes on a topic of their own, with whence and why."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from kafka import KafkaConsumer

from shadow.stream import Delivered
from shadow.stream.kafka import DeadLetter, KafkaDeadLetters

pytestmark = pytest.mark.kafka


def read_raw(bootstrap, topic: str, count: int) -> list:
    consumer = KafkaConsumer(
        topic, bootstrap_servers=list(bootstrap), auto_offset_reset="earliest", group_id=None
    )
    try:
        found = []
        while len(found) < count:
            polled = consumer.poll(timeout_ms=10_000)
            assert polled
            found += [record for records in polled.values() for record in records]
        return found
    finally:
        consumer.close()


def test_a_dead_letter_keeps_its_bytes_and_says_whence_and_why(bootstrap, settings, opened):
    """Partition, offset and reason stand in headers; the value is untouched."""
    letters = opened(KafkaDeadLetters(settings))
    letters.dead_letter(
        [
            DeadLetter(Delivered("t-2", 77, b"pair", b"\xff{broken"), "record: not JSON ✗"),
            DeadLetter(Delivered("t-0", 1, b"", b""), "empty"),
        ]
    )
    letters.dead_letter([])
    found = {r.key: r for r in read_raw(bootstrap, settings.dead_letter_topic, 2)}
    assert found[b"pair"].value == b"\xff{broken"
    assert dict(found[b"pair"].headers) == {
        "source-partition": b"t-2",
        "source-offset": b"77",
        "reason": "record: not JSON ✗".encode(),
    }
    assert found[b""].value == b""


def test_one_that_does_not_fit_is_cut_visibly(bootstrap, settings, opened):
    """A source topic may allow more than the dead letters' own: never fatal, never silent."""
    value = random.Random(1).randbytes(1_500_000)
    letters = opened(KafkaDeadLetters(replace(settings, retention=3600.0)))
    letters.dead_letter(
        [
            DeadLetter(Delivered("t-0", 1, b"large", value), "r" * 10_000),
            DeadLetter(Delivered("t-0", 2, b"small", b"v"), "why"),
        ]
    )
    found = {r.key: r for r in read_raw(bootstrap, settings.dead_letter_topic, 2)}
    large = found[b"large"]
    assert value.startswith(large.value)
    assert 900_000 < len(large.value) < len(value)
    assert int(dict(large.headers)["truncated-bytes"]) == len(value) - len(large.value)
    assert found[b"small"].value == b"v"
