"""Committed offsets are replaced whole, and a damaged file says how to go on."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from shadow.stream import StreamUnavailable
from shadow.stream.embedded import folder
from shadow.stream.embedded.folder import committed, partitions, read_offsets, write_offsets


def test_offsets_are_read_as_they_were_written(tmp_path):
    assert read_offsets(tmp_path, "collector") == {}
    write_offsets(tmp_path, "collector", {"proxy-0": 7, "a.b": 2**50})
    assert read_offsets(tmp_path, "collector") == {"proxy-0": 7, "a.b": 2**50}
    names = ["collector.offsets.json", "collector.offsets.new"]
    assert sorted(file.name for file in tmp_path.iterdir()) == names


@pytest.fixture
def no_new_byte(tmp_path, monkeypatch):
    """From the call on, nothing in the folder may become longer, as on a disk without a byte."""

    def begin() -> None:
        for file in tmp_path.iterdir():
            size = file.stat().st_size
            lengths[file.stat().st_ino] = -(-size // 4096) * 4096
        monkeypatch.setattr(folder.os, "fsync", fsync)

    def fsync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        if status.st_size > lengths.get(status.st_ino, 0):
            raise OSError(errno.ENOSPC, "No space left on device")

    lengths: dict[int, int] = {}
    return begin


def test_a_full_disk_is_no_hindrance_for_offsets(tmp_path, no_new_byte):
    """After the first write each one stands in blocks that are there already."""
    write_offsets(tmp_path, "collector", {"proxy-0": 1})
    no_new_byte()
    for offset in range(2, 9):
        write_offsets(tmp_path, "collector", {"proxy-0": offset})
        assert read_offsets(tmp_path, "collector") == {"proxy-0": offset}
    with pytest.raises(OSError, match="No space left"):
        write_offsets(tmp_path, "another", {})


@pytest.mark.parametrize("step", ["open", "torn", "fsync", "link", "replace", "second replace"])
def test_a_write_that_ends_anywhere_leaves_the_old_or_the_new(tmp_path, monkeypatch, step):
    """Killed at any step, the next process reads whole offsets and can commit."""
    for offset in (1, 2):
        write_offsets(tmp_path, "collector", {"proxy-0": offset})
    with monkeypatch.context() as patched:
        killed_at(patched, step)
        with pytest.raises(Killed):
            write_offsets(tmp_path, "collector", {"proxy-0": 3})
    expected = 3 if step == "second replace" else 2
    assert read_offsets(tmp_path, "collector") == {"proxy-0": expected}
    write_offsets(tmp_path, "collector", {"proxy-0": 4})
    assert read_offsets(tmp_path, "collector") == {"proxy-0": 4}


class Killed(BaseException):
    pass


def killed_at(monkeypatch, step: str) -> None:
    replace, calls = Path.replace, []

    def killed(*_arguments: object) -> None:
        raise Killed

    def torn(file: Path, content: bytes) -> None:
        file.write_bytes(content[:3])
        raise Killed

    def second(source: Path, target: Path) -> None:
        calls.append(source)
        if len(calls) == 2:
            raise Killed
        replace(source, target)

    where = {"fsync": (folder.os, "fsync"), "link": (folder.os, "link")}
    if step in where:
        monkeypatch.setattr(*where[step], killed)
    elif step == "torn":
        monkeypatch.setattr(folder, "_overwrite", torn)
    elif step == "open":
        monkeypatch.setattr(Path, "touch", killed)
    else:
        monkeypatch.setattr(Path, "replace", second if step == "second replace" else killed)


def test_a_file_system_without_links_still_commits(tmp_path, monkeypatch):
    def refused(*_arguments: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(folder.os, "link", refused)
    for offset in (1, 2, 3):
        write_offsets(tmp_path, "collector", {"proxy-0": offset})
        assert read_offsets(tmp_path, "collector") == {"proxy-0": offset}


def test_a_hand_may_write_offsets(tmp_path):
    """A person who moves a group edits the file; the next commit goes on from there."""
    write_offsets(tmp_path, "collector", {"proxy-0": 7})
    (tmp_path / "collector.offsets.json").write_text('{"proxy-0": 9}')
    assert read_offsets(tmp_path, "collector") == {"proxy-0": 9}
    many = {f"proxy-{n}": 2**50 for n in range(1000)}
    for offsets in (many, {"proxy-0": 10}, {"proxy-0": 11}):
        write_offsets(tmp_path, "collector", offsets)
        assert read_offsets(tmp_path, "collector") == offsets


def test_every_group_counts_and_one_that_read_nothing_stands_at_zero(tmp_path):
    """So nothing is taken for read that one group still needs."""
    assert committed(tmp_path, "proxy-0") == []
    write_offsets(tmp_path, "one", {"proxy-0": 7})
    write_offsets(tmp_path, "other", {})
    assert sorted(committed(tmp_path, "proxy-0")) == [0, 7]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"proxy-0": null}', '{"proxy-0": "x"}'])
def test_a_damaged_file_is_one_line_with_the_way_out(tmp_path, content):
    (tmp_path / "collector.offsets.json").write_text(content)
    with pytest.raises(StreamUnavailable, match=r"collector\.offsets\.json: .*remove it"):
        read_offsets(tmp_path, "collector")


def test_partitions_are_the_log_files_and_nothing_else(tmp_path):
    """WAL, locks, offsets and half-made files are no partitions."""
    for name in (
        "a.sqlite3",
        "b.c.sqlite3",
        "a.sqlite3-wal",
        "a.writer.lock",
        "x.new",
        "g.offsets.json",
    ):
        (tmp_path / name).touch()
    assert partitions(tmp_path).keys() == {"a", "b.c"}
