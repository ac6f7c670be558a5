"""Whatever the stream does to a batch, each record is counted once and its request let go."""

from __future__ import annotations

import random
import threading

import pytest

from shadow.exchange import Exchange
from shadow.publish import sender as sending
from shadow.publish.sender import Abandoned, Sender
from shadow.stream import MessageTooLarge, StreamFull, StreamUnavailable
from shadow.stream.handover.producer import HandoverFault


@pytest.fixture(autouse=True)
def no_backoff(monkeypatch):
    monkeypatch.setattr(sending, "FIRST_BACKOFF", 0.0)
    monkeypatch.setattr(sending, "LONGEST_BACKOFF", 0.0)


@pytest.fixture
def abandon():
    return threading.Event()


@pytest.fixture
def sender(memory, ledger, abandon):
    return Sender(memory.connect, ledger, abandon, lambda: True, max_record_bytes=100_000)


@pytest.fixture
def send(sender, ledger):
    def run(*items):
        sender.send([(ledger.next_sequence(), item.size_bytes, item) for item in items])

    return run


def test_what_was_acknowledged_is_captured_under_its_pairs_key(send, item, memory, counted, ledger):
    """Key, value and order; only then is it counted, and the request is closed."""
    seen_before_the_ack = []
    memory.before = lambda: seen_before_the_ack.append(counted())
    send(item(), item())
    assert seen_before_the_ack == [{"sampled": 2}]
    assert [message.key for message in memory.messages] == [b"pair-1", b"pair-2"]
    assert memory.sequences == [1, 2]
    assert counted() == {"sampled": 2, "captured": 2}
    assert ledger.low_water(9) == 9


def test_a_full_stream_drops_the_batch_and_the_next_goes_on(send, sender, item, memory, counted):
    memory.failures = [StreamFull("the log is full")]
    send(item(), item())
    assert counted() == {"sampled": 2, "dropped/log_full": 2}
    assert sender.last_error == "the log is full"
    send(item())
    assert counted() == {"sampled": 3, "dropped/log_full": 2, "captured": 1}
    assert sender.connected


def test_an_error_that_nobody_foresaw_drops_the_batch_and_connects_anew(
    send, item, memory, counted
):
    """A library's own fault ends neither the thread nor the accounting."""
    memory.failures = [AssertionError("inside a library")]
    send(item(), item())
    assert counted() == {"sampled": 2, "dropped/stream_error": 2}
    assert memory.closes == 1
    send(item())
    assert counted() == {"sampled": 3, "dropped/stream_error": 2, "captured": 1}
    assert memory.connects == 2


def test_what_is_too_large_is_dropped_alone(send, item, memory, counted):
    """The stream stored the others."""
    memory.failures = [MessageTooLarge([1], 10)]
    send(item(), item(), item())
    assert counted() == {"sampled": 3, "captured": 2, "dropped/record_too_large": 1}


def test_an_encoded_record_beyond_the_bound_never_reaches_the_stream(send, item, memory, counted):
    """One giant that does not compress is dropped; its neighbour goes on."""
    send(item(body=random.Random(1).randbytes(100_000)), item())
    assert memory.sequences == [2]
    assert counted() == {"sampled": 2, "captured": 1, "dropped/record_too_large": 1}


def test_an_unavailable_stream_is_connected_again_until_it_takes_the_batch(
    send, item, memory, counted
):
    """Nothing is lost or doubled by the retries, and each failed producer is closed."""
    memory.failures = [StreamUnavailable("gone"), StreamUnavailable("still gone")]
    send(item(), item())
    assert memory.sequences == [1, 2]
    assert counted() == {"sampled": 2, "captured": 2}
    assert (memory.connects, memory.closes) == (3, 2)


def test_a_producer_that_cannot_be_made_is_tried_again(memory, ledger, abandon, item, counted):
    """Connecting may fail like appending."""
    tries = iter([StreamUnavailable("no broker"), StreamFull("no space"), None, None])

    def connect():
        if failure := next(tries):
            raise failure
        return memory

    sender = Sender(connect, ledger, abandon, lambda: True, 100_000)
    sender.send([(1, 1, item())])
    assert counted() == {"sampled": 1, "dropped/log_full": 1}
    sender.send([(2, 1, item())])
    assert memory.sequences == [2]


def test_who_gives_up_drops_the_batch_as_shutdown(send, item, memory, counted, abandon, ledger):
    memory.failures = [StreamUnavailable("gone")]
    abandon.set()
    with pytest.raises(Abandoned):
        send(item(), item())
    assert counted() == {"sampled": 2, "dropped/shutdown": 2}
    assert ledger.low_water(9) == 9


def test_a_record_that_cannot_be_encoded_is_dropped_and_said_once(
    send, item, memory, counted, capsys
):
    """Its neighbours go on; the fault is in the log with its places, not once a record."""
    send(item(), item(broken=True), item(broken=True), item())
    assert memory.sequences == [1, 4]
    assert counted() == {"sampled": 4, "captured": 2, "dropped/not_encodable": 2}
    said = capsys.readouterr()
    assert (said.out + said.err).count("not encodable") == 1


def test_a_fault_of_shadow_measure_drops_its_batch_alone(ledger, abandon, item, counted, memory):
    """The other end of a handover says so; sent again, the batch would come for ever."""
    memory.failures = [HandoverFault("KeyError at measure.py:1 through")]
    sender = Sender(memory.connect, ledger, abandon, lambda: True, 100_000)
    sender.send([(1, 1, item()), (2, 1, item())])
    sender.send([(3, 1, item())])
    assert memory.sequences == [3]
    assert counted() == {"sampled": 3, "dropped/stream_error": 2, "captured": 1}


def test_drops_after_the_sequence_was_given_are_told_apart(send, item, memory, ledger):
    """So a reader knows which gaps are drops and which are losses."""
    memory.failures = [StreamFull("full")]
    send(item(), item())
    send(item(broken=True), item())
    record = ledger.snapshot(1)
    assert (record.high_sequence, record.dropped_sequences) == (4, 3)


def test_the_loop_gets_its_time_unless_the_sender_is_hurried(
    memory, ledger, abandon, item, monkeypatch
):
    """With every record a slice of its own, there is a pause after each, and none in a hurry."""
    pauses = []
    monkeypatch.setattr(sending, "SLICE_SECONDS", -1.0)
    monkeypatch.setattr(sending.time, "sleep", pauses.append)
    for hurried, expected in ((False, 3), (True, 0)):
        pauses.clear()
        sender = Sender(memory.connect, ledger, abandon, lambda hurried=hurried: hurried, 100_000)
        sender.send([(ledger.next_sequence(), 1, item()) for _ in range(3)])
        assert pauses == [sending.PAUSE_SECONDS] * expected


def test_accounting_says_whether_it_was_stored(sender, ledger, memory):
    memory.failures = [StreamFull("full")]
    assert not sender.account(ledger.snapshot(1))
    assert sender.account(ledger.snapshot(2))
    assert [message.key for message in memory.messages] == [b"0"]
    assert not any(isinstance(record, Exchange) for record in memory.records)


def test_what_is_spooled_holds_the_low_water(memory, ledger, sender, send, item):
    """Captured once it is on the disk, and open until it has gone on, in order; what a former
    process left is older than anything of ours, and accounting has no token."""
    waiting = [0]
    memory.spooled = lambda: waiting[0]
    send(item())
    assert ledger.low_water(99) == 99
    waiting[0] = 2 + 3  # three of a former process
    send(item(), item())
    assert ledger.low_water(99) == 1
    waiting[0] = 1 + 3
    assert sender.account(ledger.snapshot(5))
    waiting[0] = 2  # one of ours and the accounting
    assert sender.account(ledger.snapshot(6))
    waiting[0] = 1
    send(item())
    assert ledger.low_water(99) == 1
    waiting[0] = 0
    assert sender.account(ledger.snapshot(7))
    assert ledger.low_water(99) == 99
    assert not sender._steps
    assert sender._waiting == 0


def test_a_record_says_that_what_it_counts_is_spooled(memory, ledger, sender, send, item, counted):
    """`low_water` of the accounting record that follows is the spooled request's arrival."""
    memory.spooled = lambda: 1
    send(item())
    assert counted() == {"sampled": 1, "captured": 1}
    assert ledger.snapshot(10**12).low_water == 1
    memory.spooled = lambda: 0
    sender.account(ledger.snapshot(10**12))
    assert ledger.snapshot(10**12).low_water == 10**12 - 10**8


def test_a_new_connection_knows_what_still_waits(memory, ledger, sender, send, item):
    """The folder that is opened again counts the same messages: their tokens go on waiting."""
    memory.spooled = lambda: 2
    send(item(), item())
    memory.failures = [StreamUnavailable("the folder is away")]
    memory.spooled = lambda: 3
    send(item())
    assert ledger.low_water(99) == 1
    memory.spooled = lambda: 0
    sender.account(ledger.snapshot(1))
    assert ledger.low_water(99) == 99


def test_a_long_outage_holds_few_tokens(memory, ledger, send, item):
    """Ten thousand spooled messages, forty tokens; they go one step after the other."""
    waiting = [0]
    memory.spooled = lambda: waiting[0]
    for _ in range(200):
        waiting[0] += 50
        send(*(item() for _ in range(50)))
    assert len(ledger._arrivals) <= 40
    for waits in (5000, 100, 0):
        waiting[0] = waits
        send()
        assert (waits // 256) <= len(ledger._arrivals) <= (waits + 255) // 250 + 1
    assert not ledger._arrivals
