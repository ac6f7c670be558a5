"""What the embedded log promises beyond the interface: kill -9, bounds, what is never lost unseen."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from types import SimpleNamespace

import pytest

from shadow.stream import Message, StreamFull, StreamUnavailable
from shadow.stream.embedded import EmbeddedConsumer, EmbeddedProducer
from shadow.stream.embedded import producer as producing
from shadow.stream.embedded import sqlite as opening
from shadow.stream.embedded.folder import write_offsets

WRITER = """
import sys
from pathlib import Path
from shadow.stream import Message
from shadow.stream.embedded import EmbeddedProducer
producer = EmbeddedProducer(Path(sys.argv[1]), "proxy-0")
size, n = int(sys.argv[2]), 0
while True:
    batch = [Message(b"", b"%s-%d " % (sys.argv[3].encode(), n + i) * 60) for i in range(size)]
    producer.append(batch)
    n += size
    sys.stdout.write(f"{n}\\n")
    sys.stdout.flush()
"""


def kill_while_writing(folder, size: int, boot: int, acks: int) -> int:
    """Kill -9 a writer after some acknowledgements; return how many records it had acknowledged."""
    arguments = [sys.executable, "-c", WRITER, str(folder), str(size), str(boot)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as writer:
        for _ in range(acks):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        heard = [line for line in writer.stdout.read().split(b"\n")[:-1] if line]
    return int(heard[-1]) if heard else acks * size


def test_kill_9_again_and_again_loses_nothing_acknowledged_and_doubles_nothing(
    tmp_path, opened, read_all
):
    """Every acknowledged record is read exactly once, in order, across twelve killed writers, while
    a reader is at work; what was not acknowledged is there whole batches or not at all."""
    chance = random.Random(7)
    consumer = opened(EmbeddedConsumer(tmp_path))
    found, acknowledged = [], []
    for boot in range(12):
        size = chance.choice([1, 5, 50])
        acknowledged.append((size, kill_while_writing(tmp_path, size, boot, chance.randint(1, 40))))
        found += consumer.poll(100_000, 0.0)
    while more := consumer.poll(100_000, 0.1):
        found += more
    values = [record.value.split(b" ", 1)[0] for record in found]
    assert len(set(values)) == len(values)
    assert len({record.offset for record in found}) == len(found)
    for boot, (size, count) in enumerate(acknowledged):
        numbers = [int(v.split(b"-")[1]) for v in values if v.startswith(b"%d-" % boot)]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) >= count
        assert len(numbers) % size == 0


def test_a_full_log_refuses_keeps_the_unread_and_goes_on_after_a_read(tmp_path, opened, read_all):
    """The bound holds on disk, no unread record makes room for a new one, a commit makes room."""
    bound = 2 * 2**20
    producer = opened(EmbeddedProducer(tmp_path, "proxy-0", max_bytes=bound))
    consumer = opened(EmbeddedConsumer(tmp_path))
    written = fill(producer)
    assert producer.size_bytes <= bound + 64 * 1024
    found = read_all(consumer, written)
    assert [r.value[:8] for r in found] == [b"%08d" % n for n in range(written)]
    with pytest.raises(StreamFull):
        producer.append([record(written)])
    consumer.commit({"proxy-0": found[-1].offset + 1})
    for n in range(written, 3 * written):
        producer.append([record(n)])
        consumer.commit({"proxy-0": read_all(consumer, 1)[0].offset + 1})
    assert producer.size_bytes <= bound + 64 * 1024
    assert producer.expired_unread == 0


def record(number: int) -> Message:
    return Message(b"key", b"%08d" % number + os.urandom(20_000))


def fill(producer: EmbeddedProducer) -> int:
    for number in range(10_000):
        try:
            producer.append([record(number)])
        except StreamFull:
            return number
    pytest.fail("the log never refused")


def test_a_record_beyond_the_bound_is_refused_and_smaller_ones_still_fit(tmp_path, opened):
    """One giant does not close the log for the others."""
    producer = opened(EmbeddedProducer(tmp_path, "proxy-0", max_bytes=2**20))
    with pytest.raises(StreamFull):
        producer.append([Message(b"", bytes(2 * 2**20))])
    producer.append([Message(b"", b"small")])


@pytest.fixture
def swept_always(monkeypatch):
    monkeypatch.setattr(producing, "SWEEP_SECONDS", 0.0)


def test_age_deletes_the_unread_only_with_their_number(tmp_path, opened, read_all, swept_always):
    """4 of 10 were read when age deletes all: 6 are recorded, in the file and for the caller, and
    the reader goes on behind them."""
    producer = opened(EmbeddedProducer(tmp_path, "proxy-0", max_age=0.05))
    consumer = EmbeddedConsumer(tmp_path)
    for n in range(2):
        producer.append([Message(b"", b"old-%d" % (5 * n + i)) for i in range(5)])
    found = consumer.poll(4, 1.0)
    consumer.commit({"proxy-0": found[-1].offset + 1})
    consumer.close()
    time.sleep(0.06)
    producer.append([Message(b"", b"new")])
    assert producer.expired_unread == 6
    assert [r.value for r in read_all(opened(EmbeddedConsumer(tmp_path)), 1)] == [b"new"]


def test_the_number_of_the_expired_outlives_the_process(tmp_path, swept_always):
    """It stands in the file, not in the process."""
    for expected in (0, 3):
        producer = EmbeddedProducer(tmp_path, "proxy-0", max_age=0.05)
        assert producer.expired_unread == expected
        producer.append([Message(b"", b"x")] * 3)
        time.sleep(0.06)
        producer.append([])
        producer.close()


def test_a_clock_that_went_back_costs_no_young_record(
    tmp_path, opened, read_all, swept_always, monkeypatch
):
    """Age takes the old from the log's beginning; what stands behind a young one waits for it."""
    producer = opened(EmbeddedProducer(tmp_path, "proxy-0", max_age=60.0))
    now = time.time_ns()
    for minutes_old, value in ((5, b"old"), (0, b"young"), (5, b"stamped by a wrong clock")):
        at = now - minutes_old * 60 * 10**9
        monkeypatch.setattr(producing.time, "time_ns", lambda at=at: at)
        producer.append([Message(b"", value)])
    monkeypatch.setattr(producing.time, "time_ns", lambda: now)
    producer.append([])
    assert producer.expired_unread == 1
    found = read_all(opened(EmbeddedConsumer(tmp_path)), 2)
    assert [r.value for r in found] == [b"young", b"stamped by a wrong clock"]


def test_what_every_group_has_read_is_given_up_and_no_more(
    tmp_path, opened, read_all, swept_always
):
    """One group of two has read: all stays for the other, and for none that comes later. Then both
    have read the first batch of two, and a later group finds the second."""
    producer = opened(EmbeddedProducer(tmp_path, "proxy-0"))
    first, second = (opened(EmbeddedConsumer(tmp_path, name)) for name in ("first", "second"))
    for value in (b"one", b"two"):
        producer.append([Message(b"", value)])
    offsets = [record.offset for record in read_all(first, 2)]
    first.commit({"proxy-0": offsets[1] + 1})
    producer.append([])
    assert [r.value for r in read_all(second, 2)] == [b"one", b"two"]
    second.commit({"proxy-0": offsets[0] + 1})
    producer.append([])
    assert [r.value for r in read_all(opened(EmbeddedConsumer(tmp_path, "later")), 1)] == [b"two"]
    assert producer.expired_unread == 0


def test_a_log_that_is_read_does_not_grow(tmp_path, opened, read_all, swept_always):
    """Ten times what it ever holds at once goes through; the file stays as it was, far below its
    bound."""
    producer, consumer = (
        opened(EmbeddedProducer(tmp_path, "proxy-0")),
        opened(EmbeddedConsumer(tmp_path)),
    )
    sizes = []
    for n in range(10):
        for _ in range(20):
            producer.append([record(n)] * 10)
        consumer.commit({"proxy-0": read_all(consumer, 200)[-1].offset + 1})
        sizes.append((tmp_path / "proxy-0.sqlite3").stat().st_size)
    assert sizes[-1] <= sizes[3] <= 16 * 2**20


def test_one_step_of_a_sweep_is_bounded(tmp_path, opened, read_all, swept_always, monkeypatch):
    """A long log that is read at once is deleted over as many appends as it takes."""
    monkeypatch.setattr(producing, "SWEEP_BATCHES", 4)
    producer = opened(EmbeddedProducer(tmp_path, "proxy-0"))
    consumer = opened(EmbeddedConsumer(tmp_path))
    for n in range(10):
        producer.append([Message(b"", b"%d" % n)])
    consumer.commit({"proxy-0": read_all(consumer, 10)[-1].offset + 1})
    left = []
    for _ in range(4):
        producer.append([])
        with closing(sqlite3.connect(tmp_path / "proxy-0.sqlite3")) as db:
            left.append(db.execute("SELECT count(*) FROM batches").fetchone()[0])
    assert left == [6, 2, 0, 0]


def test_what_is_given_up_is_gone_from_the_disk_too(tmp_path, opened, read_all, swept_always):
    """A page that nothing uses any more holds no prompt, whatever SQLite was built with."""
    producer, consumer = EmbeddedProducer(tmp_path, "proxy-0"), EmbeddedConsumer(tmp_path)
    producer.append([Message(b"", b"a person's words " * 5000)])
    consumer.commit({"proxy-0": read_all(consumer, 1)[-1].offset + 1})
    producer.append([])
    consumer.close()
    producer.close()  # the last one to leave brings the WAL home
    assert b"a person's words" not in (tmp_path / "proxy-0.sqlite3").read_bytes()


class Disk:
    """A disk of `size_bytes` that holds the folder and `others_bytes`, as `os.statvfs` tells it."""

    def __init__(self, folder, size_bytes: int) -> None:
        self.folder, self.size_bytes, self.others_bytes = folder, size_bytes, 0
        self.least_bytes = size_bytes

    @property
    def free_bytes(self) -> int:
        used_bytes = sum(file.stat().st_size for file in self.folder.iterdir())
        free_bytes = self.size_bytes - self.others_bytes - used_bytes
        self.least_bytes = min(self.least_bytes, free_bytes)
        return free_bytes

    def statvfs(self, _folder) -> SimpleNamespace:
        return SimpleNamespace(f_bavail=self.free_bytes, f_frsize=1)


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """40 MiB; the log's own bound is far away."""
    disk = Disk(tmp_path, 40 * 2**20)
    monkeypatch.setattr(opening.os, "statvfs", disk.statvfs)
    return disk


def test_a_log_leaves_its_disk_a_reserve_and_goes_on_by_itself_once_it_is_read(
    tmp_path, opened, read_all, disk
):
    """It refuses before the disk is full, keeps every unread record, says what to do, and takes
    the next one as soon as its reader has read, in the pages it has: the disk gets no emptier."""
    producer = opened(EmbeddedProducer(tmp_path, "proxy-0"))
    consumer = opened(EmbeddedConsumer(tmp_path))
    for turn in range(3):
        written = fill(producer)
        assert written > 100, turn
        assert disk.free_bytes >= 8 * 2**20
        with pytest.raises(StreamFull, match="make room there, or let the reader catch up"):
            producer.append([record(0)])
        found = read_all(consumer, written)
        assert [r.value[:8] for r in found] == [b"%08d" % n for n in range(written)]
        consumer.commit({"proxy-0": found[-1].offset + 1})
    producer.append([record(0)])
    assert disk.least_bytes >= 8 * 2**20
    assert producer.expired_unread == 0


def test_every_worker_of_a_folder_has_its_reserve(tmp_path, opened, disk):
    """What four have in their WALs is still to be written into their files."""
    disk.size_bytes = 45 * 2**20
    producers = [opened(EmbeddedProducer(tmp_path, worker)) for worker in "abcd"]
    with suppress(StreamFull):
        for n in range(10_000):
            producers[n % 4].append([record(n)])
    assert 0 < n < 9_999
    for producer in producers:
        producer._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
    assert disk.free_bytes >= 8 * 2**20


def test_a_disk_that_others_fill_is_seen_within_a_second_and_that_it_has_room_again_too(
    tmp_path, opened, disk, swept_always
):
    producer = opened(EmbeddedProducer(tmp_path, "proxy-0"))
    producer.append([record(0)])
    disk.others_bytes = 30 * 2**20
    with pytest.raises(StreamFull, match="the disk has 9 MiB left"):
        producer.append([record(1)])
    disk.others_bytes = 0
    producer.append([record(2)])


def test_a_damaged_file_of_offsets_stops_no_record_before_the_log_is_full(
    tmp_path, opened, swept_always, disk
):
    """What is read cannot be known then, so nothing is given up; a full log says why."""
    producer = opened(EmbeddedProducer(tmp_path, "proxy-0"))
    (tmp_path / "collector.offsets.json").write_text("{")
    producer.append([record(0)])
    disk.others_bytes = 30 * 2**20
    with pytest.raises(StreamUnavailable, match="not a file of offsets"):
        producer.append([record(1)])


def test_an_offset_is_never_used_again_when_the_folder_was_removed(tmp_path, opened, read_all):
    """A reader with an old place in mind reads everything of a new file."""
    consumer = opened(EmbeddedConsumer(tmp_path))
    revoked = []
    consumer.on_revoked(revoked.extend)
    producer = EmbeddedProducer(tmp_path, "proxy-0")
    producer.append([Message(b"", b"old")] * 5)
    last = read_all(consumer, 5)[-1].offset
    consumer.commit({"proxy-0": last + 1})
    producer.close()
    for file in tmp_path.glob("proxy-0*"):
        file.unlink()
    opened(EmbeddedProducer(tmp_path, "proxy-0")).append([Message(b"", b"new")])
    found = read_all(consumer, 1)
    assert [r.value for r in found] == [b"new"]
    assert found[0].offset > last
    assert revoked == ["proxy-0"]


def test_offsets_go_on_above_what_was_committed_when_the_file_lost_its_end(tmp_path, opened):
    """After a power loss the file may lack its last records: their offsets are not given again."""
    producer = EmbeddedProducer(tmp_path, "proxy-0")
    producer.append([Message(b"", b"kept")])
    producer.close()
    before = tmp_path / "before"
    shutil.copy(tmp_path / "proxy-0.sqlite3", before)
    producer = EmbeddedProducer(tmp_path, "proxy-0")
    producer.append([Message(b"", b"undone")] * 10)
    producer.close()
    consumer = opened(EmbeddedConsumer(tmp_path))
    last = consumer.poll(100, 1.0)[-1].offset
    consumer.commit({"proxy-0": last + 1})
    shutil.copy(before, tmp_path / "restored")
    (tmp_path / "restored").replace(tmp_path / "proxy-0.sqlite3")
    opened(EmbeddedProducer(tmp_path, "proxy-0")).append([Message(b"", b"new")])
    found = consumer.poll(100, 5.0)
    assert [(r.value, r.offset) for r in found] == [(b"new", last + 1)]


def test_a_second_writer_and_a_second_reader_are_refused_in_one_line(tmp_path, opened):
    """The message names the file, the process that holds it, and the way out."""
    opened(EmbeddedProducer(tmp_path, "proxy-0"))
    opened(EmbeddedConsumer(tmp_path))
    for second, what in (
        (lambda: EmbeddedProducer(tmp_path, "proxy-0"), "the partition proxy-0"),
        (lambda: EmbeddedConsumer(tmp_path), "the group collector"),
    ):
        with pytest.raises(StreamUnavailable) as refused:
            second()
        line = str(refused.value)
        assert "\n" not in line
        assert f"process {os.getpid()} has {what} already" in line


def test_a_removed_folder_is_an_error_and_no_silent_loss(tmp_path, opened):
    """Records must not go to a file that nobody can open any more."""
    producer = opened(EmbeddedProducer(tmp_path / "stream", "proxy-0"))
    shutil.rmtree(tmp_path / "stream")
    with pytest.raises(StreamUnavailable):
        producer.append([Message(b"", b"x")])


def test_a_folder_that_cannot_be_used_is_unavailable(tmp_path):
    """A bad world is the stream's word for it, with the path; nothing of SQLite leaks out."""
    (tmp_path / "file").write_text("x")
    for end in (
        lambda: EmbeddedProducer(tmp_path / "file", "proxy-0"),
        lambda: EmbeddedConsumer(tmp_path / "file"),
    ):
        with pytest.raises(StreamUnavailable, match="file"):
            end()


def test_a_foreign_file_is_unavailable_by_name_for_both_ends(tmp_path, opened):
    """A partition's name on something that is no log."""
    (tmp_path / "proxy-0.sqlite3").write_bytes(b"not a log at all" * 1000)
    with pytest.raises(StreamUnavailable, match=r"proxy-0\.sqlite3"):
        EmbeddedProducer(tmp_path, "proxy-0")
    with pytest.raises(StreamUnavailable, match=r"proxy-0\.sqlite3"):
        opened(EmbeddedConsumer(tmp_path)).poll(1, 0.0)


def test_a_poll_ends_at_its_bytes(tmp_path, opened):
    """A reader's memory is bounded however large the records are."""
    opened(EmbeddedProducer(tmp_path, "proxy-0")).append([Message(b"", bytes(1000))] * 100)
    consumer = opened(EmbeddedConsumer(tmp_path, poll_bytes=10_000))
    assert [len(consumer.poll(1000, 0.0)) for _ in range(10)] == [10] * 10


def test_no_partition_starves_another(tmp_path, opened):
    """A worker with a long queue does not keep the collector from the others."""
    for worker in ("a", "b", "c"):
        opened(EmbeddedProducer(tmp_path, worker)).append([Message(b"", b"x")] * 100)
    consumer = opened(EmbeddedConsumer(tmp_path))
    polled = [{r.partition for r in consumer.poll(10, 0.0)} for _ in range(3)]
    assert set.union(*polled) == {"a", "b", "c"}


def test_a_reader_in_another_process_reads_while_the_log_is_written(tmp_path, opened):
    """Collector and proxy are different processes."""
    producer = opened(EmbeddedProducer(tmp_path, "proxy-0"))
    script = (
        "import sys; from pathlib import Path; from shadow.stream.embedded import EmbeddedConsumer\n"
        "consumer = EmbeddedConsumer(Path(sys.argv[1])); n = 0\n"
        "print('ready', flush=True)\n"
        "while n < 200: n += len(consumer.poll(50, 10.0))\n"
        "consumer.close(); print(n)"
    )
    arguments = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as reader:
        reader.stdout.readline()
        for n in range(100):
            producer.append([Message(b"", b"%d" % n)] * 2)
        assert reader.stdout.read().strip() == b"200"
        assert reader.wait(20) == 0


DAMAGES = {
    "cut within a record": (3, lambda packed: packed[:-2], [b"a", b"b"], 8 + 1 + 1),
    "cut within the lengths": (3, lambda packed: packed[:3], [], 3),
    "nothing at all": (3, lambda packed: b"", [], 0),
    "more behind it": (3, lambda packed: packed + b"\0\0", [b"a", b"b", b"ccc"], 2),
    "a count that is too small": (1, lambda packed: packed, [b"a"], 2 * 10 + 2),
    "a count of none": (0, lambda packed: packed, [], 3 * 10 + 2),
    "a negative count": (-5, lambda packed: packed, [], 3 * 10 + 2),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_batch_is_read_as_far_as_it_goes_and_the_reader_goes_on(tmp_path, opened, damage):
    """What is whole of it, then its rest as one record that says so; then the next batch. After a
    commit of it the next reader begins behind it."""
    count, damaged, whole, rest_bytes = DAMAGES[damage]
    producer, consumer = (
        opened(EmbeddedProducer(tmp_path, "w")),
        opened(EmbeddedConsumer(tmp_path)),
    )
    producer.append([Message(b"k", value) for value in (b"a", b"b", b"ccc")])
    producer.append([Message(b"k", b"next")])
    with closing(sqlite3.connect(tmp_path / "w.sqlite3", isolation_level=None)) as db:
        first, packed = db.execute("SELECT min(first), packed FROM batches").fetchone()
        change = "UPDATE batches SET count = ?, packed = ? WHERE first = ?"
        db.execute(change, (count, damaged(packed), first))
    *good, bad, following = consumer.poll(10, 1.0)
    assert [record.value for record in good] == whole
    assert (bad.damage.startswith("a damaged batch"), len(bad.value)) == (True, rest_bytes)
    assert (following.value, following.damage) == (b"next", "")
    write_offsets(tmp_path, "other", {"w": bad.offset + 1})
    with closing(EmbeddedConsumer(tmp_path, "other")) as other:
        assert [record.value for record in other.poll(10, 1.0)] == [b"next"]
