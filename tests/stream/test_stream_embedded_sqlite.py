"""How SQLite is set up: a file is seen whole or not at all, and errors get the stream's names."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from shadow.stream import StreamFull, StreamUnavailable
from shadow.stream.embedded.sqlite import open_reader, open_writer, translated


def test_the_file_is_in_wal_mode_and_bounded(tmp_path):
    """Readers never block the writer; the pages stay within the bound less the WAL's share."""
    with closing(open_writer(tmp_path / "w.sqlite3", 2**20, 1)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        pages = db.execute("PRAGMA max_page_count").fetchone()[0]
        size = db.execute("PRAGMA page_size").fetchone()[0]
        limit = db.execute("PRAGMA journal_size_limit").fetchone()[0]
    assert pages * size + limit <= 2**20


def test_a_half_made_file_of_a_killed_process_is_made_anew(tmp_path):
    """The schema is made beside the place, so a kill in the middle leaves nothing to read."""
    (tmp_path / "w.new").write_bytes(b"half a schema")
    with closing(open_writer(tmp_path / "w.sqlite3", 2**20, 41)) as db:
        assert db.execute("SELECT value FROM facts WHERE name = 'next'").fetchone() == (41,)
    assert not (tmp_path / "w.new").exists()


def test_a_reader_cannot_write_and_makes_no_file(tmp_path):
    with pytest.raises(sqlite3.OperationalError):
        open_reader(tmp_path / "none.sqlite3")
    assert list(tmp_path.iterdir()) == []
    open_writer(tmp_path / "w.sqlite3", 2**20, 1).close()
    readonly = pytest.raises(sqlite3.OperationalError, match="readonly")
    with closing(open_reader(tmp_path / "w.sqlite3")) as db, readonly:
        db.execute("DELETE FROM batches")


def test_a_bound_is_full_and_everything_else_is_unavailable(tmp_path):
    """SQLite's code decides, not its text; the path stands in front."""
    path = tmp_path / "w.sqlite3"
    with closing(open_writer(path, 2**18, 1)) as db:
        with pytest.raises(StreamFull, match=r"w\.sqlite3"), translated(path):
            db.execute("INSERT INTO batches VALUES (1, 1, 1, zeroblob(1000000))")
        with pytest.raises(StreamUnavailable, match=r"w\.sqlite3: no such table"), translated(path):
            db.execute("SELECT * FROM none")
    with pytest.raises(StreamUnavailable, match="Permission denied"), translated(path):
        raise PermissionError(13, "Permission denied")
