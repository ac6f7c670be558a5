"""Reading as a group: nothing lost while members come, go and vanish; doubles only as redelivery."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace

import pytest

from shadow.stream import Message, StreamUnavailable
from shadow.stream.kafka import KafkaConsumerStream, KafkaProducerStream

pytestmark = pytest.mark.kafka


class Collector(threading.Thread):
    """The collector's loop in small: poll, hold a batch open, store it, commit; flush on revoke."""

    def __init__(self, settings, stored: list, *, flush: bool, hold: int = 40) -> None:
        super().__init__(daemon=True)
        self.consumer = KafkaConsumerStream(settings)
        self.consumer.on_revoked(self.revoked)
        self.stored, self.flush_on_revoke, self.hold = stored, flush, hold
        self.batch: list = []
        self.end, self.busy = threading.Event(), threading.Event()
        self.revocations: list = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.end.is_set():
                found = self.consumer.poll(20, 0.1)
                self.batch += found
                if found:
                    self.busy.set()
                if len(self.batch) >= self.hold or not found:
                    self.flush()
            self.consumer.close()
        except BaseException as error:
            self.error = error
            raise

    def revoked(self, partitions) -> None:
        assert threading.current_thread() is self
        self.revocations.append(partitions)
        self.flush() if self.flush_on_revoke else self.batch.clear()

    def flush(self) -> None:
        self.stored.extend((r.partition, r.offset, r.value) for r in self.batch)
        self.consumer.commit({r.partition: r.offset + 1 for r in self.batch})
        self.batch.clear()


def start(settings, stored, **how) -> Collector:
    collector = Collector(replace(settings, client_id=f"c-{time.monotonic_ns()}"), stored, **how)
    collector.start()
    assert collector.busy.wait(30)
    return collector


@pytest.mark.parametrize("flush", [True, False], ids=["flush", "clear"])
def test_members_come_and_go_under_load_and_nothing_is_lost(settings, opened, flush, capsys):
    """One, two, three readers, then two, then one, while records keep coming: every record is
    stored, whether the callback flushes the open batch or clears it; one that is stored twice is
    the same place of the stream, delivered again."""
    # four clients share this process: an append may wait long for its turn
    settings = replace(settings, partitions=6, append_timeout=60.0)
    producer, stored = opened(KafkaProducerStream(settings)), []
    sent, stop = [0], threading.Event()

    def load() -> None:
        while not stop.is_set():
            first = sent[0]
            producer.append([Message(b"%d" % n, b"%d" % n) for n in range(first, first + 50)])
            sent[0] += 50
            time.sleep(0.01)

    loading = threading.Thread(target=load)
    loading.start()
    members = [start(settings, stored, flush=flush)]
    members += [start(settings, stored, flush=flush) for _ in range(2)]
    for leaving in members[:2]:
        leaving.end.set()
        leaving.join(30)
    stop.set()
    loading.join(30)
    await_all(stored, sent[0])
    members[2].end.set()
    members[2].join(30)
    assert [member.error for member in members] == [None] * 3
    assert any(member.revocations for member in members)
    places = Counter((partition, offset) for partition, offset, _ in stored)
    values = {value for _, _, value in stored}
    assert values == {b"%d" % n for n in range(sent[0])}
    assert len(places) == len(values)
    with capsys.disabled():
        sys.stdout.write(f" [{sent[0]} records, {len(stored) - len(places)} delivered again] ")


def await_all(stored: list, count: int) -> None:
    deadline = time.monotonic() + 30
    while len({value for _, _, value in stored}) < count and time.monotonic() < deadline:
        time.sleep(0.05)


VANISHING = """
import sys, time
from shadow.stream.kafka import KafkaConsumerStream, KafkaSettings, consumer
consumer.SESSION_MS = 6_000
settings = KafkaSettings((sys.argv[1],), sys.argv[2], group=sys.argv[3])
found = KafkaConsumerStream(settings).poll(10, 20.0)
print(len(found), flush=True)
time.sleep(60)
"""


def test_a_member_that_is_killed_is_replaced(settings, opened):
    """Without a goodbye the group waits a session, then its records go to the other, all of them."""
    opened(KafkaProducerStream(settings)).append(
        [Message(b"%d" % n, b"%d" % n) for n in range(300)]
    )
    arguments = [settings.bootstrap_servers[0], settings.topic, settings.group]
    with subprocess.Popen(
        [sys.executable, "-c", VANISHING, *arguments], stdout=subprocess.PIPE
    ) as vanishing:
        assert int(vanishing.stdout.readline()) > 0
        vanishing.kill()
    stored = []
    left = start(settings, stored, flush=True)
    await_all(stored, 300)
    left.end.set()
    left.join(30)
    assert {value for _, _, value in stored} == {b"%d" % n for n in range(300)}


def test_offsets_outlive_a_restart_and_a_commit_of_anothers_partition_is_ignored(
    settings, opened, read_all
):
    """What was committed is not read again; what is not ours cannot be moved by us."""
    opened(KafkaProducerStream(settings)).append([Message(b"k", b"%d" % n) for n in range(10)])
    first = KafkaConsumerStream(settings)
    found = read_all(first, 10)
    first.commit({found[0].partition: found[5].offset + 1})
    first.commit({f"{settings.topic}-77": 5, "other.topic-0": 3})
    first.close()
    again = read_all(opened(KafkaConsumerStream(settings)), 4)
    assert [record.value for record in again] == [b"6", b"7", b"8", b"9"]


def test_what_a_callback_raises_is_raised_by_poll_and_no_record_is_skipped(
    settings, opened, read_all
):
    """A store that fails in a flush is the collector's to judge; the next poll goes on."""
    opened(KafkaProducerStream(settings)).append(
        [Message(b"%d" % n, b"%d" % n) for n in range(100)]
    )
    consumer = opened(KafkaConsumerStream(settings))
    found = list(consumer.poll(10, 20.0))

    def fail(partitions):
        consumer.on_revoked(lambda _partitions: None)
        raise StreamUnavailable("the store is away")

    consumer.on_revoked(fail)
    joining = Collector(replace(settings, client_id="joining"), [], flush=True)
    joining.start()
    raised = None
    while raised is None:
        try:
            found += consumer.poll(10, 0.1)
        except StreamUnavailable as error:
            raised = str(error)
    assert raised == "the store is away"
    joining.end.set()
    joining.join(30)
    while more := consumer.poll(100, 5.0):
        found += more
    mine = {record.value for record in found}
    theirs = {value for _, _, value in joining.stored}
    assert mine | theirs == {b"%d" % n for n in range(100)}
