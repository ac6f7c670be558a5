"""The embedded log: one SQLite file a worker, a partition each, behind the stream's interface.

Rules:

1. A batch is one row, so an append is one statement and one transaction: after `kill -9` the
   whole batch is there or none of it, and the sender thread gives the interpreter's lock away
   once a batch instead of once a record.
2. A new file's offsets begin at the microsecond of its birth, and an old file goes on above what
   any group has committed: an offset never names two records, whatever was deleted or undone.
3. What a group has not committed is unread. Its number is added to `expired_unread` in the
   transaction that deletes it; a full log gives up read records only, then it refuses.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from shadow.locks import PlaceTaken, lock
from shadow.stream import Delivered, Message, Partition, StreamUnavailable
from shadow.stream.batches import pack, unpack
from shadow.stream.folder import (
    PARTITION_SUFFIX,
    committed,
    partitions,
    read_offsets,
    write_offsets,
)
from shadow.stream.sqlite import PAGE_BYTES, is_full, open_reader, open_writer, translated

SWEEP_SECONDS = 30.0
SWEEP_BATCHES = 256
LONGEST_PAUSE = 0.05
LOOK_AROUND_SECONDS = 0.05
POLL_BYTES = 16 * 2**20


def _place(folder: Path, name: str, what: str) -> int:
    try:
        return lock(folder / name, what)
    except (PlaceTaken, OSError) as error:
        raise StreamUnavailable(str(error)) from error


class EmbeddedProducer:
    """The one writer of a partition; see `shadow.stream.Producer`. For one thread.

    `max_bytes` bounds the partition's files together (a batch more while it is being written);
    `max_age` is in seconds.

    Raises:
        StreamUnavailable: another process writes this partition, or the folder cannot be used.
    """

    def __init__(
        self, folder: Path, worker: str, max_bytes: int = 4 * 2**30, max_age: float = 7 * 86400.0
    ) -> None:
        self._folder, self._partition, self._max_age = folder, worker, max_age
        self._path = folder / f"{worker}{PARTITION_SUFFIX}"
        self._lock = _place(folder, f"{worker}.writer.lock", f"the partition {worker}")
        self._sweep_due = 0.0
        try:
            with translated(self._path):
                self._db = open_writer(self._path, max_bytes, time.time_ns() // 1000)
                self._inode = self._path.stat().st_ino
                self._next = self._first_free()
                self.expired_unread = self._fact("expired_unread")
                """Records deleted by age before the group had read them, ever."""
        except BaseException:
            os.close(self._lock)
            raise

    def append(self, batch: Sequence[Message]) -> None:
        """Store the whole batch, safe against the death of this process, or raise."""
        with translated(self._path):
            self._check_place()
            self._sweep()
            if batch:
                self._insert(pack(batch), len(batch))

    def close(self) -> None:
        """Close the file and let another process write the partition."""
        self._db.close()
        os.close(self._lock)

    @property
    def size_bytes(self) -> int:
        """What the partition's files hold on disk."""
        files = (self._path, Path(f"{self._path}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def _fact(self, name: str) -> int:
        row = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return int(row[0])

    def _first_free(self) -> int:
        row = self._db.execute("SELECT max(first + count) FROM batches").fetchone()
        return max(self._fact("next"), row[0] or 0, *committed(self._folder, self._partition))

    def _check_place(self) -> None:
        """A folder that was removed under us would swallow records without an error."""
        if self._path.stat().st_ino != self._inode:
            raise StreamUnavailable(f"{self._path}: the file was replaced while it was in use")

    def _insert(self, packed: bytes, count: int) -> None:
        row = (self._next, count, time.time_ns(), packed)
        try:
            self._db.execute("INSERT INTO batches VALUES (?, ?, ?, ?)", row)
        except sqlite3.Error as error:
            if not is_full(error) or not self._make_room(len(packed)):
                raise
            self._db.execute("INSERT INTO batches VALUES (?, ?, ?, ?)", row)
        self._next += count

    def _make_room(self, needed_bytes: int) -> bool:
        """Delete the oldest read batches, a sixteenth of the log or what is needed; False: none."""
        limit_bytes = self._db.execute("PRAGMA max_page_count").fetchone()[0] * PAGE_BYTES
        wanted_bytes = max(2 * needed_bytes, limit_bytes // 16)
        read, upto, freed_bytes = self._read_upto(), 0, 0
        rows = self._db.execute("SELECT first + count, length(packed) FROM batches ORDER BY first")
        for end, size_bytes in rows:
            if end > read or freed_bytes >= wanted_bytes:
                break
            upto, freed_bytes = end, freed_bytes + size_bytes
        rows.close()
        self._delete(upto, 0)
        return freed_bytes > 0

    def _read_upto(self) -> int:
        """The offset before which every group has read everything; 0 while there is no group."""
        return min(committed(self._folder, self._partition), default=0)

    def _sweep(self) -> None:
        """Now and then, delete what is older than `max_age`, a bounded step at a time."""
        now = time.monotonic()
        if now < self._sweep_due:
            return
        oldest = time.time_ns() - int(self._max_age * 1e9)
        query = "SELECT first, count, at FROM batches ORDER BY first LIMIT ?"
        rows = self._db.execute(query, (SWEEP_BATCHES,)).fetchall()
        expired = [(first, count) for first, count, at in rows if at < oldest]
        if expired:
            read = self._read_upto()
            unread = sum(min(count, max(0, first + count - read)) for first, count in expired)
            self._delete(sum(expired[-1]), unread)
        self._sweep_due = now if len(expired) == SWEEP_BATCHES else now + SWEEP_SECONDS

    def _delete(self, upto: int, unread: int) -> None:
        """Delete all before `upto`; the unread's number and the next offset are kept with it."""
        facts = [(self.expired_unread + unread, "expired_unread"), (self._next, "next")]
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany("UPDATE facts SET value = ? WHERE name = ?", facts)
            self._db.execute("DELETE FROM batches WHERE first < ?", (upto,))
            self._db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise
        self.expired_unread += unread


class _Reading:
    """One open partition: where its reader stands."""

    def __init__(self, partition: Partition, path: Path, begin: int) -> None:
        self._partition, self._path, self._begin = partition, path, begin
        with translated(path):
            self.inode = path.stat().st_ino
            self._db = open_reader(path)
            query = "SELECT max(first) FROM batches WHERE first <= ?"
            self._row: int = self._db.execute(query, (begin,)).fetchone()[0] or 0
        self._rest: deque[Delivered] = deque()

    def take(self, max_records: int, max_bytes: int) -> list[Delivered]:
        """The next records; fewer where there are fewer, the last may pass `max_bytes`."""
        taken: list[Delivered] = []
        size_bytes = 0
        while len(taken) < max_records and size_bytes < max_bytes and (self._rest or self._read()):
            record = self._rest.popleft()
            size_bytes += len(record.value)
            taken.append(record)
        return taken

    def _read(self) -> bool:
        """Unpack the next row that holds something new; False: there is none."""
        query = "SELECT first, count, packed FROM batches WHERE first >= ? ORDER BY first LIMIT 1"
        while not self._rest:
            with translated(self._path):
                row = self._db.execute(query, (self._row,)).fetchone()
            if row is None:
                return False
            first, count, packed = row
            self._row = first + count
            self._rest.extend(
                Delivered(self._partition, offset, message.key, message.value)
                for offset, message in enumerate(unpack(packed), first)
                if offset >= self._begin
            )
        return True

    def close(self) -> None:
        self._db.close()


class EmbeddedConsumer:
    """The one reader of a group, over every partition that is or comes in the folder.

    See `shadow.stream.Consumer`. A poll ends at `poll_bytes` of values too. For one thread.

    Raises:
        StreamUnavailable: another process reads for this group, or the folder cannot be used.
    """

    def __init__(
        self, folder: Path, group: str = "collector", poll_bytes: int = POLL_BYTES
    ) -> None:
        self._folder, self._group, self._poll_bytes = folder, group, poll_bytes
        self._lock = _place(folder, f"{group}.reader.lock", f"the group {group}")
        try:
            self._committed = read_offsets(folder, group)
            if not self._committed:
                write_offsets(folder, group, {})  # from now on, what is unread is known
        except BaseException:
            os.close(self._lock)
            raise
        self._readings: dict[Partition, _Reading] = {}
        self._revoked: Callable[[Collection[Partition]], None] = lambda _partitions: None
        self._look_due = 0.0

    def poll(self, max_records: int, timeout: float) -> Sequence[Delivered]:
        """Up to `max_records` in each partition's order, waiting `timeout` seconds at most."""
        deadline = time.monotonic() + timeout
        pause = 0.001
        while True:
            self._look_around()
            found = self._take(max_records)
            remaining = deadline - time.monotonic()
            if found or remaining <= 0:
                return found
            time.sleep(min(pause, remaining))
            pause = min(2 * pause, LONGEST_PAUSE)

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Everything before `offsets[partition]` is done, on the disk when this returns."""
        merged = self._committed | dict(offsets)
        with translated(self._folder):
            write_offsets(self._folder, self._group, merged)
        self._committed = merged

    def on_revoked(self, callback: Callable[[Collection[Partition]], None]) -> None:
        """`callback` runs when a partition's file is gone; nothing else takes one away here."""
        self._revoked = callback

    def close(self) -> None:
        """Leave; what was not committed is read again by the next."""
        for reading in self._readings.values():
            reading.close()
        self._readings.clear()
        os.close(self._lock)

    def _take(self, max_records: int) -> list[Delivered]:
        """From every partition in turn; who came first comes last in the next poll."""
        taken: list[Delivered] = []
        size_bytes = 0
        for partition in list(self._readings):
            if len(taken) >= max_records or size_bytes >= self._poll_bytes:
                break
            reading = self._readings.pop(partition)
            self._readings[partition] = reading
            part = reading.take(max_records - len(taken), self._poll_bytes - size_bytes)
            size_bytes += sum(len(record.value) for record in part)
            taken += part
        return taken

    def _look_around(self) -> None:
        """Open partitions that came, let go of those whose file is gone or another."""
        now = time.monotonic()
        if now < self._look_due:
            return
        self._look_due = now + LOOK_AROUND_SECONDS
        there = partitions(self._folder)
        self._let_go([name for name, r in self._readings.items() if not _same(r, there.get(name))])
        for name in there.keys() - self._readings.keys():
            self._readings[name] = _Reading(name, there[name], self._committed.get(name, 0))

    def _let_go(self, gone: list[Partition]) -> None:
        if gone:
            self._revoked(gone)
        for partition in gone:
            self._readings.pop(partition).close()


def _same(reading: _Reading, path: Path | None) -> bool:
    with suppress(FileNotFoundError):
        return path is not None and path.stat().st_ino == reading.inode
    return False
