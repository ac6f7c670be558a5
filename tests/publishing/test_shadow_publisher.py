"""The queue is bounded in bytes, the loop never waits, and the end leaves nothing uncounted."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest
from structlog.testing import capture_logs

from shadow.exchange import Accounting, Exchange
from shadow.publish import publisher as publishing
from shadow.publish import sender as sending
from shadow.publish.accounting import Ledger
from shadow.publish.publisher import Publisher
from shadow.stream import StreamFull, StreamUnavailable
from shadow.stream.embedded import EmbeddedConsumer, EmbeddedProducer


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(publishing, "WAKE_SECONDS", 0.001)
    monkeypatch.setattr(sending, "FIRST_BACKOFF", 0.001)
    monkeypatch.setattr(sending, "LONGEST_BACKOFF", 0.002)


@contextmanager
def running(memory, ledger, queue_bytes=10**6, **more):
    publisher = Publisher(memory.connect, ledger, queue_bytes, **more)
    try:
        yield publisher
    finally:
        publisher.close(10)


@contextmanager
def blocked(memory):
    """The stream takes nothing until the block ends; gives the moment when it began to."""
    reached, go = threading.Event(), threading.Event()

    def wait():
        reached.set()
        assert go.wait(10)

    memory.before = wait
    try:
        yield reached
    finally:
        go.set()


def exchanges(memory):
    return [r for r in memory.records if isinstance(r, Exchange)]


def accounts(memory):
    return [r for r in memory.records if isinstance(r, Accounting)]


def test_what_is_offered_is_stored_in_order_and_the_end_is_said(memory, ledger, item, counted):
    """Closing sends what is queued, then the final record, then closes the producer."""
    with running(memory, ledger) as publisher:
        assert all(publisher.offer(item()) for _ in range(500))
        assert publisher.close(10)
    assert memory.sequences == list(range(1, 501))
    assert counted() == {"sampled": 500, "captured": 500}
    last = memory.records[-1]
    assert (last.final, last.low_water, last.high_sequence) == (True, None, 500)
    assert memory.closes == 1
    assert publisher.queued_bytes == 0


def test_beyond_its_bytes_the_queue_drops_and_counts(memory, ledger, item, counted):
    """What is in the thread's hands counts too; a drop leaves a gap in the sequences."""
    with running(memory, ledger, queue_bytes=5000) as publisher:
        with blocked(memory):
            taken = [publisher.offer(item(size_bytes=1000)) for _ in range(8)]
            assert publisher.queued_bytes == 5000
        assert taken == [True] * 5 + [False] * 3
        publisher.close(10)
    assert memory.sequences == [1, 2, 3, 4, 5]
    assert counted() == {"sampled": 8, "captured": 5, "dropped/queue_full": 3}
    last = accounts(memory)[-1]
    assert (last.high_sequence, last.dropped_sequences) == (8, 3)


def test_an_item_larger_than_the_queue_is_dropped_and_the_next_fits(memory, ledger, item, counted):
    with running(memory, ledger, queue_bytes=5000) as publisher:
        assert not publisher.offer(item(size_bytes=5001))
        assert publisher.offer(item(size_bytes=5000))
    assert counted() == {"sampled": 2, "captured": 1, "dropped/queue_full": 1}


def test_offers_never_wait_for_a_stream_that_hangs(memory, ledger, item):
    """The producer's constructor blocks, too: it runs in the thread."""
    go = threading.Event()

    def connect():
        assert go.wait(10)
        return memory

    publisher = Publisher(connect, ledger, 10**6)
    assert all(publisher.offer(item()) for _ in range(100))
    assert not publisher.ready
    assert publisher.last_error == "not connected yet"
    go.set()
    assert publisher.close(10)
    assert len(exchanges(memory)) == 100


def test_low_water_stays_at_the_oldest_that_is_queued(memory, ledger, item):
    """A record that is published while a capture waits does not pass its arrival."""
    with running(memory, ledger) as publisher, blocked(memory) as reached:
        assert reached.wait(10)
        publisher.offer(item())
        assert ledger.low_water(99) == 1
    assert ledger.low_water(99) == 99
    assert all(record.low_water != 1 or not record.final for record in accounts(memory))


def test_predecessors_are_published_first_and_then_settled(memory, ledger, tmp_path, item):
    """A killed process's last counts come before anything of this one, and only once."""
    dead, _ = Ledger.open(tmp_path / "other", "0", "llama", "c0ffee")
    last = dead.snapshot(1, final=True)
    settled = []
    ledger.settle, kept = settled.append, ledger.settle
    try:
        with running(memory, ledger, predecessors=[last]) as publisher:
            publisher.offer(item())
    finally:
        ledger.settle = kept
        dead.close(published=True)
    assert memory.records[0] == last
    assert settled == [last.boot_id]


def test_a_predecessor_that_a_full_log_refused_is_not_settled(memory, ledger, tmp_path):
    """Its file stays for the next process."""
    last = ledger.snapshot(1, final=True)
    memory.failures = [StreamFull("full")]
    settled = []
    ledger.settle, kept = settled.append, ledger.settle
    try:
        with running(memory, ledger, predecessors=[last]):
            pass
    finally:
        ledger.settle = kept
    assert settled == []


def test_a_stream_that_is_away_for_a_while_loses_nothing(memory, ledger, item, counted):
    memory.failures = [StreamUnavailable("away")] * 20
    with running(memory, ledger) as publisher:
        for _ in range(50):
            publisher.offer(item())
    assert memory.sequences == list(range(1, 51))
    assert counted() == {"sampled": 50, "captured": 50}


def test_a_stream_that_never_comes_back_ends_in_time_with_everything_counted(
    memory, ledger, item, counted
):
    """Closing is bounded; what was left is `shutdown`, its requests closed, nothing pending."""

    def away():
        raise StreamUnavailable("away for good")

    memory.before = away
    publisher = Publisher(memory.connect, ledger, 10**6)
    for _ in range(200):
        publisher.offer(item())
    assert not publisher.close(0.05)
    assert counted() == {"sampled": 200, "dropped/shutdown": 200}
    assert ledger.low_water(99) == 99
    assert publisher.queued_bytes == 0
    assert not publisher.ready


def test_a_full_log_at_the_end_leaves_the_final_record_to_the_next_process(memory, ledger):
    """False: the ledger's file must stay."""

    def full():
        raise StreamFull("full")

    memory.before = full
    publisher = Publisher(memory.connect, ledger, 10**6)
    assert not publisher.close(10)


def test_accounting_comes_every_second_and_the_first_at_once(memory, ledger, monkeypatch):
    """With a short second: at least three before the end, their sequences without a gap."""
    monkeypatch.setattr(publishing, "ACCOUNTING_SECONDS", 0.01)
    third = threading.Event()
    memory.before = lambda: len(memory.batches) >= 3 and third.set()
    with running(memory, ledger) as publisher:
        assert third.wait(10)
        assert publisher.ready
        assert publisher.last_error is None
    sequences = [record.sequence for record in accounts(memory)]
    assert sequences == list(range(1, len(sequences) + 1))
    assert [record.final for record in accounts(memory)[:-1]] == [False] * (len(sequences) - 1)


def test_batches_are_bounded_and_a_giant_goes_alone(memory, ledger, item):
    """So a refusal of a giant takes nothing with it."""
    with running(memory, ledger, queue_bytes=10**9) as publisher:
        with blocked(memory) as reached:
            assert reached.wait(10)
            publisher.offer(item())
            publisher.offer(item(size_bytes=10**8))
            for _ in range(100):
                publisher.offer(item())
        publisher.close(10)
    sizes = [len(b) for b in memory.batches if b"exchange" in b[0].value[:30]]
    assert sizes[:2] == [1, 1]
    assert sum(sizes) == 102
    assert max(sizes) <= publishing.BATCH_RECORDS


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_the_thread_is_no_silence(memory, ledger, item, counted, monkeypatch):
    """It is not ready, says why, and the end still counts what was left."""

    def broken(*_, **__):
        raise ZeroDivisionError("no such figure")

    monkeypatch.setattr(ledger, "snapshot", broken)
    publisher = Publisher(memory.connect, ledger, 10**6)
    publisher._thread.join(10)
    publisher.offer(item())
    assert not publisher.ready
    assert "ZeroDivisionError at " in publisher.last_error
    assert not publisher.close(1)
    assert counted() == {"sampled": 1, "dropped/shutdown": 1}


def test_through_the_embedded_log_to_a_reader(tmp_path, ledger, item, counted):
    """The whole way out: offered, stored on disk, read by the collector's end."""
    folder = tmp_path / "stream"
    publisher = Publisher(lambda: EmbeddedProducer(folder, "0"), ledger, 10**8)
    for n in range(300):
        publisher.offer(item(body=b"answer %d " % n * 50))
    assert publisher.close(10)
    consumer = EmbeddedConsumer(folder)
    found = []
    while more := consumer.poll(1000, 0.0):
        found += more
    consumer.close()
    values = [record.value for record in found]
    assert sum(b'"record":"exchange"' in value for value in values) == 300
    assert b'"final":true' in values[-1]
    assert counted() == {"sampled": 300, "captured": 300}


@pytest.mark.parametrize(
    ("failure", "event"),
    [
        (StreamFull("0.sqlite3: the disk has 0 MiB left"), "stream full: records are dropped"),
        (StreamUnavailable("0.sqlite3: Permission denied"), "stream away: records wait in memory"),
    ],
)
def test_a_full_and_an_absent_stream_are_told_once_and_so_is_the_end(
    memory, ledger, item, failure, event
):
    """The reason with it; twenty failures are no twenty lines."""
    memory.failures = [failure] * 20
    with capture_logs() as lines, running(memory, ledger) as publisher:
        while not memory.took.wait(0.002):
            publisher.offer(item())
    first, last = lines
    assert first["event"].startswith(event)
    assert first["reason"] == str(failure)
    assert last["event"] == f"{first['event']}: over"
