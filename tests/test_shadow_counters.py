"""Counters in a mapped file survive kill -9, and a foreign file is refused with the way out."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shadow.publish.counters import CAPACITY, Counters, NotCounters, read_counters

WORD = st.text("abcdefghijklmnopqrstuvwxyz0123456789_.-", max_size=30)
NAMES = st.tuples(WORD, WORD, WORD).filter(any)


@given(counts=st.dictionaries(NAMES, st.integers(0, 2**62), max_size=30))
def test_what_was_counted_is_read_by_name(counts, tmp_path_factory):
    """Names and values come back as they were, with the identity, while the file is still open."""
    path = tmp_path_factory.mktemp("counters") / "w.counters"
    with closing(Counters(path, {"worker": "w"})) as counters:
        for name, value in counts.items():
            counters.view[counters.cell(name)] += value
        assert read_counters(path) == ({"worker": "w"}, counts)


def test_kill_9_loses_no_count(tmp_path):
    """What a killed process had counted before its last word is in the file."""
    script = (
        "import sys; from pathlib import Path; from shadow.publish.counters import Counters\n"
        "counters = Counters(Path(sys.argv[1]), {})\n"
        "cell = counters.cell(('arm', 'captured', ''))\n"
        "while True:\n"
        "    counters.view[cell] += 1\n"
        "    print(counters.view[cell], flush=True)\n"
    )
    path = tmp_path / "w.counters"
    arguments = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as counting:
        for _ in range(50):
            counting.stdout.readline()
        counting.send_signal(signal.SIGKILL)
        heard = [int(line) for line in counting.stdout.read().split(b"\n")[:-1]] or [50]
    value = read_counters(path)[1]["arm", "captured", ""]
    assert value - heard[-1] in (0, 1)


def test_a_file_that_is_full_or_a_name_that_is_long_is_refused(tmp_path):
    with closing(Counters(tmp_path / "w.counters", {})) as counters:
        with pytest.raises(ValueError, match="no room"):
            counters.cell(("a" * 200, "captured", ""))
        for n in range(CAPACITY):
            counters.cell((f"arm-{n}", "captured", ""))
        with pytest.raises(ValueError, match="no room"):
            counters.cell(("one", "more", ""))
        assert len(read_counters(counters.path)[1]) == CAPACITY


@pytest.mark.parametrize("content", [b"", b"something else", b"shadow-counters-1\n{}"])
def test_a_foreign_file_is_one_line_with_the_way_out(tmp_path, content):
    path = tmp_path / "w.counters"
    path.write_bytes(content)
    with pytest.raises(NotCounters, match="remove it"):
        read_counters(path)


def test_the_file_is_reserved_on_the_disk(tmp_path):
    """Not sparse: counting on a disk that is full by then must not be fatal."""
    with closing(Counters(tmp_path / "w.counters", {})) as counters:
        found = counters.path.stat()
        assert found.st_blocks * 512 >= found.st_size


def test_a_disk_that_is_full_keeps_no_half_of_a_file(tmp_path, monkeypatch):
    """Each start of a proxy there would leave one more."""

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        Counters(tmp_path / "0@b.counters", {})
    assert list(tmp_path.iterdir()) == []
