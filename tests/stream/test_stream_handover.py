"""A handover: what is acknowledged is on the stream, in order; whoever dies, nothing is in doubt."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shadow.stream import Message, MessageTooLarge, StreamFull, StreamUnavailable
from shadow.stream.handover import Handover, HandoverProducer
from shadow.stream.handover.frames import Answer, packed, read, told, unpacked
from shadow.stream.handover.place import address
from shadow.stream.handover.producer import HandoverFault


class Kept:
    """A stream in memory; `fault` is raised by the next append."""

    def __init__(self):
        self.messages, self.fault, self.workers, self.closed = [], None, [], 0
        self.waiting = 0

    def open(self, worker):
        self.workers.append(worker)
        return self

    def append(self, batch):
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault
        self.messages += batch

    def spooled(self):
        return self.waiting

    def close(self):
        self.closed += 1


@contextmanager
def handover(folder, kept, through=lambda value: b"<" + value + b">"):
    over = threading.Event()
    server = Handover(folder, kept.open, through)
    thread = threading.Thread(target=server.serve, args=(over.is_set,))
    thread.start()
    try:
        yield server
    finally:
        over.set()
        thread.join(10)
        assert not thread.is_alive()


@contextmanager
def producer(folder, worker="0", **more):
    one = HandoverProducer(folder, worker, **more)
    try:
        yield one
    finally:
        one.close()


@given(st.lists(st.builds(Message, st.binary(max_size=9), st.binary(max_size=99)), max_size=9))
def test_a_batch_is_read_as_it_was_packed(batch):
    assert unpacked(b"".join(packed(batch))) == batch


@given(st.binary(max_size=60))
def test_what_is_no_batch_and_no_answer_is_refused(frame):
    for reader in (unpacked, read):
        with suppress(ConnectionError):
            reader(frame)


@settings(max_examples=20)
@given(st.text(max_size=9), st.lists(st.integers(0, 9), max_size=4), st.integers(0, 99))
def test_an_answer_is_read_as_it_was_told(full, indices, spooled):
    answer = Answer(full=full, too_large=tuple(indices), spooled=spooled)
    assert read(told(answer)) == answer


def test_what_is_acknowledged_is_stored_in_order(tmp_path):
    """Two workers, each with a stream of its own; large values too."""
    kept, folder = Kept(), tmp_path / "place"
    with handover(folder, kept) as server:
        assert folder.stat().st_mode & 0o777 == 0o700
        with producer(folder, "0") as one, producer(folder, "1") as two:
            one.append([])
            one.append([Message(b"a", b"1"), Message(b"b", b"")])
            two.append([Message(b"c", bytes(3_000_000))])
            kept.waiting = 7
            one.append([Message(b"d", b"2")])
            assert one.spooled() == 7
        assert server.records_total == 4
    assert [m.key for m in kept.messages] == [b"a", b"b", b"c", b"d"]
    assert kept.messages[0].value == b"<1>"
    assert sorted(kept.workers) == ["0", "1"]
    assert kept.closed == 2


def test_the_streams_refusals_come_through(tmp_path):
    kept = Kept()
    with handover(tmp_path / "place", kept), producer(tmp_path / "place") as one:
        kept.fault = StreamFull("no room")
        with pytest.raises(StreamFull, match="no room"):
            one.append([Message(b"a", b"1")])
        kept.fault = MessageTooLarge([1], 99)
        with pytest.raises(MessageTooLarge) as refused:
            one.append([Message(b"a", b"1"), Message(b"b", b"2")])
        assert (refused.value.indices, refused.value.limit_bytes) == ((1,), 99)
        kept.fault = StreamUnavailable("the disk is away")
        with pytest.raises(StreamUnavailable, match="the disk is away"):
            one.append([Message(b"a", b"1")])
    assert kept.messages == []


def test_a_batch_that_nobody_foresaw_is_given_up_and_the_next_one_goes_on(tmp_path, capsys):
    """Taken for an end of the other side it would be sent again for ever; what failed is not told."""
    folder, kept = tmp_path / "place", Kept()
    with handover(folder, kept):
        kept.fault = ZeroDivisionError("a secret")
        with producer(folder) as one, pytest.raises(HandoverFault, match=r"^ZeroDivisionError at "):
            one.append([Message(b"a", b"1")])
        with producer(folder) as one:
            one.append([Message(b"b", b"2")])
    assert [m.key for m in kept.messages] == [b"b"]
    assert "a secret" not in capsys.readouterr().out


def test_what_cannot_be_turned_is_withheld_and_the_others_are_not(tmp_path, capsys):
    """It never passes as it came; its words are in no log."""

    def through(value):
        if value == b"secret":
            raise ValueError("secret")
        return value

    kept = Kept()
    with handover(tmp_path / "place", kept, through) as server:
        with producer(tmp_path / "place") as one, pytest.raises(MessageTooLarge) as refused:
            one.append([Message(b"a", b"1"), Message(b"b", b"secret"), Message(b"c", b"3")])
        assert server.withheld_total == 1
    assert refused.value.indices == (1,)
    assert [m.value for m in kept.messages] == [b"1", b"3"]
    assert "secret" not in capsys.readouterr().out.replace("withheld", "")


def test_nobody_there_and_then_somebody(tmp_path):
    """Before it, after it, and when it ends within a batch: unavailable, and begun anew."""
    folder, kept = tmp_path / "place", Kept()
    with pytest.raises(StreamUnavailable, match="shadow measure"):
        HandoverProducer(folder, "0")
    with handover(folder, kept), producer(folder) as one:
        one.append([Message(b"a", b"1")])
    with pytest.raises(StreamUnavailable):
        one.append([Message(b"b", b"2")])
    with pytest.raises(StreamUnavailable):
        HandoverProducer(folder, "0")
    with handover(folder, kept), producer(folder) as again:
        again.append([Message(b"b", b"2")])
    assert [m.key for m in kept.messages] == [b"a", b"b"]


def test_a_side_that_is_cut_within_a_batch(tmp_path):
    """Half a batch is no batch: nothing of it is stored, and others are served."""
    folder, kept = tmp_path / "place", Kept()
    with handover(folder, kept):
        with socket.socket(socket.AF_UNIX) as raw, address(folder) as path:
            raw.connect(path)
            raw.sendall((1).to_bytes(8, "big") + b"0" + (100).to_bytes(8, "big") + b"half")
        with producer(folder) as one:
            one.append([Message(b"a", b"1")])
    assert [m.key for m in kept.messages] == [b"a"]


def test_a_batch_that_takes_too_long_is_unavailable(tmp_path):
    folder, held = tmp_path / "place", threading.Event()

    def through(value):
        held.wait(10)
        return value

    with handover(folder, Kept(), through):
        with (
            producer(folder, timeout_s=0.05) as one,
            pytest.raises(StreamUnavailable, match="timed out"),
        ):
            one.append([Message(b"a", b"1")])
        held.set()


def test_the_place_is_private(tmp_path):
    """A folder that others may look into is refused; a path longer than a socket's is not."""
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(StreamUnavailable, match="others may look"):
        Handover(tmp_path / "open", Kept().open, bytes)
    deep = tmp_path / ("d" * 120) / ("e" * 120)
    kept = Kept()
    with handover(deep, kept), producer(deep) as one:
        one.append([Message(b"a", b"1")])
    assert len(kept.messages) == 1
