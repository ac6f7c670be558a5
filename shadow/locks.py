"""One live process a place: an advisory lock that the kernel releases however the process ends."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path


class PlaceTaken(Exception):
    """Another live process holds the place; one line, with its pid."""


def lock(path: Path, place: str) -> int:
    """Lock the file `path` for `place` and return its descriptor; closing it releases the lock.

    Raises:
        PlaceTaken: another process holds it.
        OSError: the file cannot be made, or its file system has no locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = _owner(descriptor)
        os.close(descriptor)
        raise PlaceTaken(
            f"{path}: {owner} has {place} already; stop it, or use another folder"
        ) from None
    except OSError:
        os.close(descriptor)
        raise
    with suppress(OSError):  # a full disk: the lock holds, and who writes beside it says why
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor


def _owner(descriptor: int) -> str:
    pid = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
    return f"process {pid}" if pid else "another process"
