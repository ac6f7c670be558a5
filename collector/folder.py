"""What is known of the store's folder without opening it."""

from __future__ import annotations

import fcntl
import os
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_SECRET_FILE = "secret"  # noqa: S105 - its name


class Misconfigured(Exception):
    """What no waiting mends: one line with the key, and the way out."""


EXTRA = "the embedded store needs chdb: pip install 'shadow-compare[embedded]'"


def secret_of(folder: Path) -> str:
    """What whoever writes to the store in the folder must show; "" where this user cannot read it,
    or before the store's first start.
    """
    try:
        return (folder / _SECRET_FILE).read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def made_secret(folder: Path) -> str:
    """The same, made where it is missing, for this user alone.

    Raises:
        OSError: it cannot be read or written.
    """
    path = folder / _SECRET_FILE
    fresh = folder / f".{_SECRET_FILE}.{os.getpid()}"
    if not secret_of(folder):
        fresh.unlink(missing_ok=True)
        fresh.touch(0o600, exist_ok=False)
        fresh.write_text(secrets.token_urlsafe(32) + "\n", "ascii")
        fresh.replace(path)  # whole, or not at all
    path.chmod(0o600)
    return path.read_text("ascii").strip()


def unusable(folder: Path) -> str | None:
    """Make the folder where it is missing; one line that says why it cannot be used, or None."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        return f"the folder {folder}: it is a file; move it away, or name another folder"
    except OSError as error:
        return f"the folder {folder}: {error.strerror or error}"
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return f"the folder {folder}: this user may not read and write it"
    return None


def locked_by(folder: Path) -> str | None:
    """One line that says which other process holds the folder, or None when none does.

    The engine keeps a lock (flock) on the file `status` in its folder and writes its pid there;
    of a lock that it cannot have, it says nothing that a person could use.
    """
    try:
        with (folder / "status").open() as status:
            try:
                fcntl.flock(status, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pid = status.readline().removeprefix("PID:").strip() or "unknown"
                if pid == str(os.getpid()):
                    return None
                return f"the store's folder {folder} is in use by process {pid}"
    except OSError:  # no such file, or none that this user may open: then it is no lock either
        return None
    return None
