"""What collector and proxy rely on, for every stream behind the interface.

Each test states one promise of `shadow.stream`; a new stream adds its factory in conftest.py and
must pass as it stands.
"""

from __future__ import annotations

import time
from collections import defaultdict

import pytest

from shadow.stream import Message


def messages(first: int, count: int) -> list[Message]:
    return [Message(b"key-%d" % n, b"value-%d" % n) for n in range(first, first + count)]


def by_partition(records):
    parts = defaultdict(list)
    for record in records:
        parts[record.partition].append(record)
    return parts


def next_offsets(records):
    return {p: rs[-1].offset + 1 for p, rs in by_partition(records).items()}


def test_what_is_appended_is_read_once_with_key_and_value(streams, opened, read_all):
    """No record is lost, doubled or changed on its way, whatever bytes it holds."""
    odd = [
        Message(b"", b""),
        Message(b"\x00\xff", b"\x00" * 5000),
        Message(b"k", bytes(range(256))),
    ]
    producer, consumer = opened(streams.producer()), opened(streams.consumer())
    producer.append(odd)
    producer.append(messages(0, 7))
    found = read_all(consumer, 10)
    assert sorted((r.key, r.value) for r in found) == sorted(
        (m.key, m.value) for m in [*odd, *messages(0, 7)]
    )
    assert list(consumer.poll(10, 0.0)) == []


def test_offsets_rise_within_a_partition_and_name_one_record(streams, opened, read_all):
    """(partition, offset) is a record's identity: dead letters and commits rely on it."""
    producer, consumer = opened(streams.producer()), opened(streams.consumer())
    for n in range(5):
        producer.append(messages(n * 10, 10))
    for records in by_partition(read_all(consumer, 50)).values():
        offsets = [r.offset for r in records]
        assert offsets == sorted(set(offsets))


def test_one_key_stays_in_order(streams, opened, read_all):
    """Records of one key arrive in the order in which they were appended."""
    producer, consumer = opened(streams.producer()), opened(streams.consumer())
    for n in range(6):
        producer.append([Message(b"same", b"%d.%d" % (n, i)) for i in range(3)])
    values = [r.value for r in read_all(consumer, 18)]
    assert values == [b"%d.%d" % (n, i) for n in range(6) for i in range(3)]


@pytest.mark.parametrize("at_once", [1, 2, 3, 7, 100])
def test_a_poll_never_gives_more_than_asked_and_pages_do_not_matter(
    streams, opened, read_all, at_once
):
    """The same records in the same order, in whatever pieces they are polled."""
    producer, consumer = opened(streams.producer()), opened(streams.consumer())
    producer.append(messages(0, 5))
    producer.append(messages(5, 8))
    found = []
    while len(found) < 13 and (page := consumer.poll(at_once, 10.0)):
        assert len(page) <= at_once
        found += page
    assert sorted(int(r.value.split(b"-")[1]) for r in found) == list(range(13))


def test_a_restart_begins_at_the_committed_offset(streams, opened, read_all):
    """What was read and not committed is read again; what was committed is not."""
    opened(streams.producer()).append([Message(b"same", b"%d" % n) for n in range(10)])
    consumer = streams.consumer()
    found = read_all(consumer, 10, at_once=4)
    consumer.commit({found[0].partition: found[3].offset + 1})
    consumer.close()
    again = read_all(opened(streams.consumer()), 6)
    assert [r.value for r in again] == [b"%d" % n for n in range(4, 10)]


def test_without_a_commit_everything_is_read_again(streams, opened, read_all):
    """Closing commits nothing."""
    opened(streams.producer()).append(messages(0, 3))
    first = streams.consumer()
    assert len(read_all(first, 3)) == 3
    first.close()
    assert len(read_all(opened(streams.consumer()), 3)) == 3


def test_a_commit_in_the_middle_of_a_batch_splits_it(streams, opened, read_all):
    """An offset may stand anywhere: batches are the writer's matter, not the reader's."""
    opened(streams.producer()).append([Message(b"same", b"%d" % n) for n in range(9)])
    for done in range(1, 9):
        consumer = streams.consumer()
        found = read_all(consumer, 9 - (done - 1))
        assert found[0].value == b"%d" % (done - 1)
        consumer.commit({found[0].partition: found[0].offset + 1})
        consumer.close()


def test_groups_read_independently(streams, opened, read_all):
    """A commit of one group moves no other."""
    opened(streams.producer()).append(messages(0, 4))
    one, other = opened(streams.consumer("one")), opened(streams.consumer("other"))
    one.commit(next_offsets(read_all(one, 4)))
    assert len(read_all(other, 4)) == 4


def test_every_workers_records_reach_the_one_consumer(streams, opened, read_all):
    """Workers that start later are read too, without a restart."""
    consumer = opened(streams.consumer())
    opened(streams.producer("proxy-0")).append(messages(0, 5))
    assert len(read_all(consumer, 5)) == 5
    opened(streams.producer("proxy-1")).append(messages(5, 5))
    late = read_all(consumer, 5)
    assert sorted(r.value for r in late) == sorted(m.value for m in messages(5, 5))


def test_a_producer_goes_on_where_its_predecessor_ended(streams, opened, read_all):
    """A restarted worker's records follow, with new offsets."""
    consumer = opened(streams.consumer())
    for n in range(3):
        producer = streams.producer()
        producer.append([Message(b"same", b"%d" % n)])
        producer.close()
    found = read_all(consumer, 3)
    assert [r.value for r in found] == [b"0", b"1", b"2"]
    assert len({r.offset for r in found}) == 3


def test_an_empty_poll_waits_no_longer_than_told(streams, opened):
    """The collector's clock goes on while nothing arrives."""
    consumer = opened(streams.consumer())
    consumer.poll(1, 0.0)
    began = time.monotonic()
    assert list(consumer.poll(10, 0.15)) == []
    assert 0.1 <= time.monotonic() - began < 3.0


def test_an_empty_batch_is_nothing(streams, opened, read_all):
    """Appending nothing stores nothing."""
    producer, consumer = opened(streams.producer()), opened(streams.consumer())
    producer.append([])
    producer.append(messages(0, 1))
    assert len(read_all(consumer, 1)) == 1
    assert list(consumer.poll(10, 0.0)) == []


def test_a_large_record_passes(streams, opened, read_all):
    """Captures reach megabytes."""
    producer, consumer = opened(streams.producer()), opened(streams.consumer())
    value = bytes(range(256)) * 2000
    producer.append([Message(b"large", value)])
    assert read_all(consumer, 1)[0].value == value


def test_nothing_is_revoked_while_nothing_is_taken_away(streams, opened, read_all):
    """The callback flushes the open batch: it must not run without need."""
    calls = []
    consumer = opened(streams.consumer())
    consumer.on_revoked(calls.append)
    opened(streams.producer()).append(messages(0, 3))
    consumer.commit(next_offsets(read_all(consumer, 3)))
    assert calls == []
