"""The reading end of the embedded log; the rules stand in the package's docstring."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from shadow.stream import Delivered, Partition
from shadow.stream.embedded.batches import pack, unpack
from shadow.stream.embedded.folder import partitions, read_offsets, take_place, write_offsets
from shadow.stream.embedded.sqlite import open_reader, translated

LONGEST_PAUSE = 0.05
LOOK_AROUND_SECONDS = 0.05
POLL_BYTES = 16 * 2**20


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
            self._row = first + max(1, count)
            records = _records(self._partition, first, count, packed)
            self._rest.extend(record for record in records if record.offset >= self._begin)
        return True

    def close(self) -> None:
        self._db.close()


def _records(partition: Partition, first: int, count: int, packed: bytes) -> list[Delivered]:
    """A row's records; of a damaged row what can be read, and the rest as one damaged record in
    the place of its last: it is seen, and the reader goes on behind it.
    """
    messages, rest = unpack(packed)
    promised = max(0, count)
    records = [
        Delivered(partition, offset, message.key, message.value)
        for offset, message in enumerate(messages[:promised], first)
    ]
    if rest or len(messages) != count:
        damage = f"a damaged batch of {count}: {len(messages)} records are whole"
        rest = pack(messages[promised:]) + rest
        last = first + max(1, count) - 1
        records.append(Delivered(partition, last, b"", rest, f"{damage}, {len(rest)} bytes left"))
    return records


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
        self._lock = take_place(folder, f"{group}.reader.lock", f"the group {group}")
        try:
            with translated(folder):
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
