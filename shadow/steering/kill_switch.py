"""The kill switch: a file that stops mirroring by what it says, or by not being readable."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

MOST_KILL_BYTES: Final = 4096
_OFF: Final = frozenset({"", "off", "0", "false", "no"})


def kill_reason(path: Path) -> str:
    """Why mirroring must stop by this file; '' where it says off, or is not there.

    It is read by its path each time, so links that are swapped (a ConfigMap's) are followed.
    """
    path = path.absolute()  # a relative one counts from where the process was started
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return f"{path} cannot be read: it is no file"
            read = file.read(MOST_KILL_BYTES + 1)
    except FileNotFoundError:
        if path.is_symlink():
            return f"{path} leads nowhere"
        return "" if path.parent.is_dir() else f"{path.parent} is missing"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror or error}"
    if len(read) > MOST_KILL_BYTES:
        return f"{path} is longer than {MOST_KILL_BYTES} bytes"
    said = read.decode("utf-8", "replace").strip()
    return "" if said.lower() in _OFF else f"{path} says {said.splitlines()[0][:60]!r}"


def _without_waiting(path: str, flags: int) -> int:
    """Opened so that a pipe without a writer does not hold the thread for good."""
    return os.open(path, flags | os.O_NONBLOCK)
