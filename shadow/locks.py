"""One live process a place: an advisory lock that the kernel releases however the process ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class PlaceTaken(Exception):
    """Another live process holds the place; one line, with its pid."""


def lock(path: Path, place: str) -> int:
    """Lock the file `path` for `place` and return its descriptor; closing it releases the lock.

    Raises:
        PlaceTaken: another process holds it.
        OSError: the file cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        raise PlaceTaken(
            f"{path}: process {owner} has {place} already; stop it, or use another folder"
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor
