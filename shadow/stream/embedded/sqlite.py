"""SQLite as the embedded log uses it: how a partition's file is made, opened and translated."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from shadow.stream import StreamFull, StreamUnavailable
from shadow.stream.embedded.folder import partitions

PAGE_BYTES = 8192
_WAL_BYTES = 8 * 2**20
_BUSY_SECONDS = 5.0
_SCARCE_BYTES = 8 * 2**20
_FULL = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_TOOBIG})
_SCHEMA = """
CREATE TABLE batches (
    first INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    at INTEGER NOT NULL,
    packed BLOB NOT NULL
) STRICT;
CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
"""


def open_writer(path: Path, max_bytes: int, born_at: int) -> sqlite3.Connection:
    """The partition's file, made if it is not there, bounded to `max_bytes` with its WAL."""
    if not path.exists():
        _make(path, born_at)
    wal_bytes = min(_WAL_BYTES, max_bytes // 4)
    db = _connect(path)
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute("PRAGMA secure_delete = ON")  # what is deleted is gone from the disk too
    db.execute(f"PRAGMA wal_autocheckpoint = {max(1, wal_bytes // PAGE_BYTES)}")
    db.execute(f"PRAGMA journal_size_limit = {wal_bytes}")
    db.execute(f"PRAGMA max_page_count = {max(1, (max_bytes - wal_bytes) // PAGE_BYTES)}")
    return db


def open_reader(path: Path) -> sqlite3.Connection:
    """The partition's file as another process may read it while it is written."""
    db = _connect(path)
    db.execute("PRAGMA query_only = ON")
    return db


def _connect(path: Path) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=rw"
    return sqlite3.connect(uri, timeout=_BUSY_SECONDS, isolation_level=None, uri=True)


def _make(path: Path, born_at: int) -> None:
    """Make the file beside its place and move it there whole: no reader meets half a schema."""
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    with closing(sqlite3.connect(fresh, isolation_level=None)) as db:
        db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(_SCHEMA)
        facts = [("next", born_at), ("expired_unread", 0)]
        db.executemany("INSERT INTO facts VALUES (?, ?)", facts)
    fresh.replace(path)


def is_full(error: BaseException) -> bool:
    """The log's bound or the disk's was reached, or the value is larger than any bound."""
    return getattr(error, "sqlite_errorcode", None) in _FULL


def free_bytes(folder: Path) -> int:
    """What the folder's disk has left for who is not root."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def reserve_bytes(folder: Path) -> int:
    """What the logs of a folder leave free on their disk, so that what frees pages can be written.

    Each partition's WAL is still to be written into its file; some are for offsets and for others.
    """
    return _SCARCE_BYTES + _WAL_BYTES * max(1, len(partitions(folder)))


def free_in_file_bytes(db: sqlite3.Connection) -> int:
    """What can be written into pages that the file has and nothing uses."""
    return int(db.execute("PRAGMA freelist_count").fetchone()[0]) * PAGE_BYTES


def _room(path: Path) -> str:
    """Which of the two bounds it was, and the way out."""
    try:
        left_bytes = free_bytes(path.parent)
    except OSError:
        return ""
    if left_bytes < _SCARCE_BYTES:
        return f": the disk has {left_bytes >> 20} MiB left; make room there"
    return ": its bound is reached; is the reader running? raise the bound, or give it time"


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """SQLite's and the system's errors as the stream's two."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        if is_full(error):
            raise StreamFull(f"{path}: {error}{_room(path)}") from error
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
        raise StreamUnavailable(f"{path}: {reason}") from error
