"""Committed offsets are replaced whole, and a damaged file says how to go on."""

from __future__ import annotations

import pytest

from shadow.stream import StreamUnavailable
from shadow.stream.embedded.folder import committed, partitions, read_offsets, write_offsets


def test_offsets_are_read_as_they_were_written(tmp_path):
    assert read_offsets(tmp_path, "collector") == {}
    write_offsets(tmp_path, "collector", {"proxy-0": 7, "a.b": 2**50})
    assert read_offsets(tmp_path, "collector") == {"proxy-0": 7, "a.b": 2**50}
    assert [file.name for file in tmp_path.iterdir()] == ["collector.offsets.json"]


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
