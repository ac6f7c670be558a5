"""One live process a place: an advisory lock that the kernel releases however the process ends."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path


class PlaceTaken(Exception):
    """Another live process holds the place; one line, with its pid."""

    def __init__(self, said: str, owner: int | None) -> None:
        super().__init__(said)
        self.owner = owner
        """Its process id; None where it had no room to say it."""


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
        who = f"process {owner}" if owner else "another process"
        said = f"{path}: {who} has {place} already; stop it, or use another folder"
        raise PlaceTaken(said, owner) from None
    except OSError:
        os.close(descriptor)
        raise
    with suppress(OSError):  # a full disk: the lock holds, and who writes beside it says why
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor


def _owner(descriptor: int) -> int | None:
    pid = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
    return int(pid) if pid.isdecimal() else None
