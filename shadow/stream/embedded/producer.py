"""The writing end of the embedded log; the rules stand in the package's docstring."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

from shadow.stream import Message, StreamUnavailable
from shadow.stream.embedded.batches import pack
from shadow.stream.embedded.folder import PARTITION_SUFFIX, committed, writer_place
from shadow.stream.embedded.sqlite import PAGE_BYTES, is_full, open_writer, translated

SWEEP_SECONDS = 30.0
SWEEP_BATCHES = 256


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
        self._lock = writer_place(folder, worker)
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
            self._sweep_now_and_then()
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

    def _sweep_now_and_then(self) -> None:
        now = time.monotonic()
        if now >= self._sweep_due:
            self._sweep_due = now if self._sweep() else now + SWEEP_SECONDS

    def _sweep(self) -> bool:
        """Delete a bounded step of what is older than `max_age`; whether there may be more."""
        oldest = time.time_ns() - int(self._max_age * 1e9)
        query = "SELECT first, count, at FROM batches ORDER BY first LIMIT ?"
        rows = self._db.execute(query, (SWEEP_BATCHES,)).fetchall()
        expired = [row[:2] for row in takewhile(lambda row: row[2] < oldest, rows)]
        if expired:
            read = self._read_upto()
            unread = sum(min(count, max(0, first + count - read)) for first, count in expired)
            self._delete(sum(expired[-1]), unread)
        return len(expired) == SWEEP_BATCHES

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
