"""The spill: while the remote is away records wait on the disk, in order, bounded, across restarts."""

from __future__ import annotations

import random
import threading
import time
from contextlib import closing

import pytest
from structlog.testing import capture_logs

from shadow.stream import Message, MessageTooLarge, StreamFull, StreamUnavailable
from shadow.stream import spill as module
from shadow.stream.spill import Spill, unread


class Remote:
    """A remote that is up or away as told, and keeps what it took."""

    def __init__(self, *, up: bool = True, limit_bytes: int = 2**30) -> None:
        self.up, self.limit_bytes = up, limit_bytes
        self.taken: list[bytes] = []
        self.changed = threading.Condition()
        self.closed = False

    def append(self, batch):
        with self.changed:
            if not self.up:
                self.changed.notify_all()
                raise StreamUnavailable("the remote\nis away")
            large = [n for n, m in enumerate(batch) if len(m.value) > self.limit_bytes]
            self.taken += [m.value for n, m in enumerate(batch) if n not in large]
            self.changed.notify_all()
            if large:
                raise MessageTooLarge(large, self.limit_bytes)

    def close(self):
        self.closed = True

    def await_taken(self, count: int) -> list[bytes]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.taken) >= count, 20)
            return list(self.taken)


def numbered(first: int, count: int) -> list[Message]:
    return [Message(b"key", b"%d" % n) for n in range(first, first + count)]


def values(first: int, count: int) -> list[bytes]:
    return [m.value for m in numbered(first, count)]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "FIRST_BACKOFF", 0.005)
    monkeypatch.setattr(module, "LONGEST_BACKOFF", 0.02)


def direct_again(spill: Spill) -> None:
    deadline = time.monotonic() + 20
    while spill.spooled() or spill._draining.is_alive():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_remote_that_is_there_gets_everything_and_the_disk_nothing(tmp_path):
    """In good times the spill is a call more, no copy."""
    remote = Remote()
    with closing(Spill(remote, tmp_path, "w")) as spill:
        spill.append(numbered(0, 5))
        spill.append([])
        assert remote.taken == values(0, 5)
        assert (spill.spooled(), spill.last_error) == (0, None)
        assert unread(tmp_path, "w") == 0
    assert remote.closed


def test_while_it_is_away_records_wait_and_go_in_order_before_new_ones(tmp_path):
    """One worker's order holds over the whole outage; what waits is counted until it is sent."""
    remote = Remote(up=False)
    with closing(Spill(remote, tmp_path, "w")) as spill:
        for n in range(10):
            spill.append(numbered(10 * n, 10))
        assert spill.spooled() == 100
        assert spill.last_error == "the remote is away"
        remote.up = True
        for n in range(10, 20):
            spill.append(numbered(10 * n, 10))
        assert remote.await_taken(200) == values(0, 200)
        direct_again(spill)
        assert (spill.spooled(), spill.last_error) == (0, None)
        spill.append(numbered(200, 1))
        assert remote.taken[-1] == b"200"


def test_what_was_left_goes_first_in_the_next_process(tmp_path):
    """A restart while the remote is away loses nothing, and new records wait behind the old."""
    with closing(Spill(Remote(up=False), tmp_path, "w")) as first:
        first.append(numbered(0, 7))
    remote = Remote(up=False)
    with closing(Spill(remote, tmp_path, "w")) as second:
        second.append(numbered(7, 3))
        assert second.spooled() == 10
        remote.up = True
        assert remote.await_taken(10) == values(0, 10)


def test_a_fault_that_nobody_foresaw_is_said_and_tried_again(tmp_path):
    """What waits is not lost for it, and readiness does not say that all is well meanwhile."""
    with closing(Spill(Remote(up=False), tmp_path, "w")) as first:
        first.append(numbered(0, 3))
    remote = Remote()
    good = remote.append

    def faulty(_batch):
        raise RuntimeError("a library's own")

    remote.append = faulty
    with closing(Spill(remote, tmp_path, "w")) as second:
        second.append(numbered(3, 1))
        second._draining.join()
        assert second.last_error.startswith("RuntimeError at ")
        remote.append = good
        second.append(numbered(4, 1))
        assert remote.await_taken(5) == values(0, 5)
        direct_again(second)
        assert second.last_error is None


def test_another_workers_folder_is_not_touched(tmp_path):
    """Each worker drains its own."""
    with closing(Spill(Remote(up=False), tmp_path / "a", "a")) as spill:
        spill.append(numbered(0, 3))
    remote = Remote()
    with closing(Spill(remote, tmp_path / "b", "b")) as spill:
        spill.append(numbered(9, 1))
    assert remote.taken == [b"9"]
    assert unread(tmp_path / "a", "a") == 3


def fill(spill: Spill, large: int) -> int:
    for n in range(1000):
        try:
            spill.append([Message(b"", b"%06d" % n + bytes(large))])
        except StreamFull:
            return n
    pytest.fail("it never refused")


def test_what_waits_is_bounded_and_what_fits_is_kept(tmp_path):
    """Beyond the bound the caller hears StreamFull and drops; nothing that waits makes room."""
    remote, large = Remote(up=False), 20_000
    with closing(Spill(remote, tmp_path, "w", max_bytes=2**20)) as spill:
        stored = fill(spill, large)
        assert 0 < stored < 100
        assert spill.spooled() == stored
        remote.up = True
        taken = remote.await_taken(stored)
        assert [v[:6] for v in taken] == [b"%06d" % n for n in range(stored)]


def test_a_close_while_it_is_away_does_not_wait(tmp_path):
    """A drain that cannot succeed costs no shutdown its time."""
    spill = Spill(Remote(up=False), tmp_path, "w")
    spill.append(numbered(0, 3))
    began = time.monotonic()
    spill.close()
    assert time.monotonic() - began < 2.0
    assert unread(tmp_path, "w") == 3


def test_a_close_sends_what_waits_when_the_remote_is_back(tmp_path):
    """Nothing is left to the next process without need."""
    remote = Remote(up=False)
    spill = Spill(remote, tmp_path, "w")
    spill.append(numbered(0, 600))
    remote.up = True
    remote.await_taken(1)
    spill.close()
    assert remote.taken == values(0, 600)
    assert unread(tmp_path, "w") == 0


LARGE = [Message(b"", v) for v in (b"1", b"s" * 50, b"x" * 50, b"2", b"y" * 50)]


def shrink(value: bytes, limit_bytes: int) -> bytes | None:
    return value[:limit_bytes] if value.startswith(b"s") else None


def test_a_message_too_large_even_shrunk_is_refused_and_the_others_are_stored(tmp_path):
    """The caller learns which of the batch: it counts them dropped, not captured."""
    remote = Remote(limit_bytes=10)
    with closing(Spill(remote, tmp_path, "w", shrink=shrink)) as spill:
        with pytest.raises(MessageTooLarge) as refused:
            spill.append(LARGE)
        assert (refused.value.indices, refused.value.limit_bytes) == ((2, 4), 10)
        assert remote.taken == [b"1", b"2", b"s" * 10]
        spill.append([Message(b"", b"3")])
        assert (spill.refused_total, spill.spooled(), spill.last_error) == (2, 0, None)


def test_one_that_a_second_try_finds_too_large_is_refused_by_its_own_index(tmp_path):
    """A shrinking that did not go far enough is no loss of its neighbours."""
    remote = Remote(limit_bytes=10)
    halfway = lambda value, _limit: value[: 5 if value.startswith(b"s") else 20]  # noqa: E731
    with closing(Spill(remote, tmp_path, "w", shrink=halfway)) as spill:
        with pytest.raises(MessageTooLarge) as refused:
            spill.append(LARGE)
        assert refused.value.indices == (2, 4)
        assert remote.taken == [b"1", b"2", b"s" * 5]


def test_one_that_waited_and_can_never_be_sent_is_told(tmp_path):
    """It never stands in the way of the others; whoever counts hears of it before it is off the disk."""
    remote, told = Remote(up=False, limit_bytes=10), []
    hear = lambda message: told.append((message.value, spill.spooled()))  # noqa: E731
    with closing(Spill(remote, tmp_path, "w", shrink=shrink, refused=hear)) as spill:
        spill.append(LARGE)
        remote.up = True
        assert remote.await_taken(3) == [b"1", b"2", b"s" * 10]
        spill.append([Message(b"", b"3")])
        assert remote.await_taken(4)[-1] == b"3"
        direct_again(spill)
        assert spill.refused_total == 2
        assert [value for value, _ in told] == [b"x" * 50, b"y" * 50]
        assert all(waiting >= 5 for _, waiting in told)


@pytest.mark.parametrize("seed", range(5))
def test_any_pattern_of_outages_keeps_every_record_and_the_order(tmp_path, seed):
    """Up and away at random, with restarts: each record once, in order."""
    chance, remote, sent = random.Random(seed), Remote(), 0
    for _ in range(4):
        with closing(Spill(remote, tmp_path, "w")) as spill:
            for _ in range(15):
                remote.up = chance.random() < 0.5
                count = chance.randint(1, 20)
                spill.append(numbered(sent, count))
                sent += count
    remote.up = True
    with closing(Spill(remote, tmp_path, "w")) as spill:
        spill.append(numbered(sent, 1))
        assert remote.await_taken(sent + 1) == values(0, sent + 1)


def test_the_waiting_are_always_the_last_appended(tmp_path):
    """So the caller's low water is the arrival of the oldest of its last `spooled()` messages."""
    remote = Remote(up=False)
    with closing(Spill(remote, tmp_path, "w")) as spill:
        appended = 0
        for n in range(50):
            spill.append(numbered(appended, 7))
            appended += 7
            remote.up = n > 25
            waiting = spill.spooled()  # read first: what is sent in between only makes it smaller
            assert set(values(appended - waiting, waiting)) >= set(values(0, appended)) - set(
                remote.taken
            )
        assert remote.await_taken(appended) == values(0, appended)


def test_a_folder_that_cannot_be_used_is_unavailable(tmp_path):
    """The disk's trouble is the caller's to retry."""
    (tmp_path / "file").write_text("x")
    with (
        closing(Spill(Remote(), tmp_path / "file", "w")) as spill,
        pytest.raises(StreamUnavailable, match="file"),
    ):
        spill.append(numbered(0, 1))


def test_the_log_hears_of_an_outage_once_and_of_its_end(tmp_path):
    """Not a line a try: what is away and why, where records wait, and that it is over."""
    remote = Remote(up=False)
    with capture_logs() as lines, closing(Spill(remote, tmp_path, "w")) as spill:
        for n in range(20):
            spill.append(numbered(n, 1))
        with remote.changed:  # a few tries later
            for _ in range(3):
                assert remote.changed.wait(20)
        remote.up = True
        remote.await_taken(20)
        direct_again(spill)
    first, last = lines
    assert (first["event"], first["log_level"]) == (
        "stream away: records wait on disk",
        "warning",
    )
    assert (first["reason"], first["folder"]) == ("the remote is away", str(tmp_path))
    assert (last["event"], last["log_level"]) == (f"{first['event']}: over", "info")
