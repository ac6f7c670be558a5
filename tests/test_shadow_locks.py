"""A place has one live process, and a dead one never blocks it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import pytest

from shadow.locks import PlaceTaken, lock


def test_a_second_process_is_refused_and_a_killed_one_frees_the_place(tmp_path):
    """kill -9 leaves the file, not the lock; the refusal names the process."""
    script = (
        "import sys, time; from pathlib import Path; from shadow.locks import lock\n"
        "lock(Path(sys.argv[1]), 'the seat'); print('held', flush=True); time.sleep(60)"
    )
    path = tmp_path / "deep" / "seat.lock"
    arguments = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        with pytest.raises(PlaceTaken, match=f"process {holder.pid} has the seat already") as taken:
            lock(path, "the seat")
        assert taken.value.owner == holder.pid
        holder.send_signal(signal.SIGKILL)
    descriptor = lock(path, "the seat")
    assert path.read_text() == str(os.getpid())
    os.close(descriptor)


def test_a_full_disk_is_not_taken_for_another_process(tmp_path, monkeypatch):
    """Without room for the process's number the place is ours all the same, and free afterwards:
    whoever asks for it meanwhile is told of another process, and nobody is after its end."""

    def no_room(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "seat.lock"
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", no_room)
        descriptor = lock(path, "the seat")
    with pytest.raises(PlaceTaken, match="another process has the seat already"):
        lock(path, "the seat")
    os.close(descriptor)
    os.close(lock(path, "the seat"))
