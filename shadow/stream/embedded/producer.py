"""The writing end of the embedded log; the rules stand in the package's docstring."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from shadow.stream import Message, StreamFull, StreamUnavailable
from shadow.stream.embedded.batches import pack
from shadow.stream.embedded.folder import PARTITION_SUFFIX, committed, writer_place
from shadow.stream.embedded.sqlite import (
    free_bytes,
    free_in_file_bytes,
    is_full,
    open_writer,
    reserve_bytes,
    translated,
)

SWEEP_SECONDS = 1.0
SWEEP_BATCHES = 256
SWEEP_BYTES = 2 * 2**20
"""Few: what is deleted is overwritten, so it goes through the WAL."""
ALLOWANCE_BYTES = 2 * 2**20
"""What is written, at most, before the disk is asked again."""
OLDEST_BATCHES = """
SELECT first, max(1, count), at, max(1, length(packed)) FROM batches ORDER BY first LIMIT ?
"""


class EmbeddedProducer:
    """The one writer of a partition; see `shadow.stream.Producer`. For one thread.

    `max_bytes` bounds the partition's files together (a batch more while it is being written), and
    the disk's reserve (`sqlite.reserve_bytes`) is never written into; `max_age` is in seconds.

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
        self._allowance_bytes = 0
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
        needed_bytes = 2 * len(packed)  # once in the WAL, once in the file
        if needed_bytes > self._allowance_bytes:
            self._allowance_bytes = self._allowed(needed_bytes)
        self._allowance_bytes -= needed_bytes
        row = (self._next, count, time.time_ns(), packed)
        try:
            self._db.execute("INSERT INTO batches VALUES (?, ?, ?, ?)", row)
        except sqlite3.Error as error:
            if not is_full(error) or not self._make_room(needed_bytes):
                raise
            self._db.execute("INSERT INTO batches VALUES (?, ?, ?, ?)", row)
        self._next += count

    def _allowed(self, needed_bytes: int) -> int:
        """How much may be written before the disk is asked again; at least what is needed now.

        Raises:
            StreamFull: the disk is down to its reserve, and the file has no free pages inside.
        """
        room_bytes = self._room_bytes()
        if room_bytes < needed_bytes and self._make_room(needed_bytes):
            room_bytes = self._room_bytes()
        if room_bytes < needed_bytes:
            raise StreamFull(
                f"{self._path}: the disk has {free_bytes(self._folder) >> 20} MiB left and the "
                f"log keeps {reserve_bytes(self._folder) >> 20} MiB free, to be able to recover; "
                "make room there, or let the reader catch up"
            )
        return max(needed_bytes, min(room_bytes, ALLOWANCE_BYTES))

    def _room_bytes(self) -> int:
        """What may be written: on the disk above its reserve, or in the file's free pages."""
        above_bytes = free_bytes(self._folder) - reserve_bytes(self._folder)
        return max(above_bytes, free_in_file_bytes(self._db))

    def _make_room(self, needed_bytes: int) -> bool:
        """Sweep until twice what is needed is free, or nothing is left to sweep; False: none."""
        freed_bytes = 0
        while freed_bytes < 2 * needed_bytes and (step_bytes := self._sweep()):
            freed_bytes += step_bytes
        return freed_bytes > 0

    def _read_upto(self) -> int:
        """The offset before which every group has read everything; 0 while there is no group."""
        return min(committed(self._folder, self._partition), default=0)

    def _sweep_now_and_then(self) -> None:
        """One step an append while there is something, else a look a second, also at the disk."""
        now = time.monotonic()
        if now < self._sweep_due:
            return
        self._sweep_due = now + SWEEP_SECONDS
        self._allowance_bytes = 0
        with suppress(StreamUnavailable):  # a damaged file of offsets: its reader says so, and a
            if self._sweep():  # full log does; until then what comes can still be stored
                self._sweep_due = now

    def _sweep(self) -> int:
        """Delete a bounded step, from the log's beginning, of what every group has read or what is
        older than `max_age`; how many bytes that were.
        """
        oldest = time.time_ns() - int(self._max_age * 1e9)
        read, upto, unread, freed_bytes = self._read_upto(), 0, 0, 0
        rows = self._db.execute(OLDEST_BATCHES, (SWEEP_BATCHES,))
        for first, count, at, size_bytes in rows:
            if (first + count > read and at >= oldest) or freed_bytes >= SWEEP_BYTES:
                break
            upto, freed_bytes = first + count, freed_bytes + size_bytes
            unread += min(count, max(0, upto - read))
        rows.close()
        if upto:
            self._delete(upto, unread)
        return freed_bytes

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
