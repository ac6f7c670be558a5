"""An arrival that takes several turns keeps its own time, and those behind it keep theirs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from relay.test_relay_hostile import CHUNKED, chunks, connected

from shadow.relay import upstream as module


class Marks:
    """A capture that remembers when it was told of how much, by a clock of the test's own."""

    def __init__(self) -> None:
        self.marks: list[tuple[int, int]] = []
        self.head = None
        self.first_byte_ns = self.sent_ns = self.total_bytes = 0

    def append(self, now: int, pieces: list[bytes]) -> None:
        size = sum(map(len, pieces))
        self.total_bytes += size
        if size:
            self.marks.append((now, size))

    def end(self, now: int, transport: str, error: str | None = None) -> None:
        self.ended = now, transport


@pytest.fixture
def at(monkeypatch):
    """`at(now)` sets what the clock says from then on."""
    clock = SimpleNamespace(now=1)
    monkeypatch.setattr(module, "monotonic_ns", lambda: clock.now)

    def set_to(now: int) -> None:
        clock.now = now

    return set_to


def test_bytes_that_come_while_others_wait_are_stamped_by_their_own_arrival(at):
    """A transport had more in hand when it was told to pause: not the time of what came before it,
    nor that of the turn in which it is looked at."""
    connection, told, later, transport = connected()
    capture = connection.capture = Marks()
    body = chunks(9, 1000)
    at(1000)
    connection.data_received(CHUNKED + body[:7000])
    assert not transport.reading
    at(2000)
    connection.data_received(body[7000:9000])
    at(3000)
    connection.data_received(body[9000:])
    at(9000)
    later.take()
    assert transport.reading
    assert told.body == b"x" * 9000
    assert told.ends == ["ended"]
    assert capture.ended == (3000, "complete")
    times = [now for now, _ in capture.marks]
    assert times == sorted(times)
    by_arrival = {now: sum(n for t, n in capture.marks if t == now) for now in (1000, 2000, 3000)}
    assert sum(by_arrival.values()) == 9000
    before = [body[:end].count(b"x") for end in (7000, 9000, len(body))]
    assert list(by_arrival.values()) == [
        before[0],
        before[1] - before[0],
        before[2] - before[1],
    ]


def test_heads_that_come_while_others_wait_follow_them(at):
    """Interim heads in slices, the final head in two later arrivals: one answer, whose first byte
    is the final head's."""
    connection, told, later, _ = connected()
    capture = connection.capture = Marks()
    at(10)
    connection.data_received(b"HTTP/1.1 102 P\r\n\r\n" * 100)
    at(20)
    connection.data_received(b"HTTP/1.1 200 OK\r\nContent-")
    at(30)
    connection.data_received(b"Length: 2\r\n\r\nok")
    at(90)
    later.take()
    assert told.interim == 100
    assert told.body == b"ok"
    assert told.ends == ["ended"]
    assert capture.first_byte_ns == 20
    assert capture.marks == [(30, 2)]


def test_what_waits_behind_a_whole_answer_is_left_over():
    """Bytes that nobody asked for, behind an answer that was looked at in slices: not reused."""
    connection, told, later, _ = connected()
    connection.data_received(CHUNKED + chunks(9, 1000))
    connection.data_received(b"HTTP/1.1 200 OK\r\n\r\n")
    later.take()
    assert told.ends == ["ended"]
    assert not connection.reusable


def test_what_waits_goes_with_its_connection():
    """After an abort nothing that waited is looked at."""
    connection, told, later, _ = connected()
    connection.data_received(CHUNKED + chunks(9, 1000))
    connection.data_received(b"more")
    passed = told.body
    connection.abort()
    later.take()
    assert told.body == passed
    assert told.ends == []
