"""Where what was said is kept: a file of the state folder, whole or not at all.

So it outlives processes, and every process of the machine hears it. Hosts that do not share the
folder follow the control port.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from shadow.steering.told import MOST_BYTES, NotSteering, Told, damaged, told_of


def file_of(state: Path, experiment: str) -> Path:
    """Where an experiment's lies."""
    return state / f"{experiment}.mirror.json"


def read(path: Path) -> Told:
    """What was said last; nothing where there is no file.

    Raises:
        NotSteering: the file cannot be read, or holds something else.
    """
    try:
        with path.open("rb") as file:
            return told_of(json.loads(file.read(MOST_BYTES)))
    except FileNotFoundError:
        return Told()
    except (OSError, ValueError, RecursionError) as error:
        raise NotSteering(f"{path}: {error}") from error


def write(path: Path, told: Told, *, waits: bool = True) -> None:
    """Whole or not at all, and on the disk when it returns.

    Args:
        path: the file.
        told: what it says from now on.
        waits: for another process that changes it.

    Raises:
        OSError: it cannot be written; BlockingIOError: another changes it just now.
    """
    with _alone(path, 0 if waits else fcntl.LOCK_NB):
        _put(path, told)


def change(path: Path, how: Callable[[Told], Told]) -> Told:
    """Read, change, write, with no other writer between. A damaged file counts as a pause, as it
    does to who watches it: no word of another (an arm's end, a rate) takes that back.

    Waits for who else changes it: not for an event loop.

    Raises:
        OSError: it cannot be read now, or not be written; what was said stands.
    """
    with _alone(path):
        before = _read_or_paused(path)
        after = how(before)
        if after != before:
            _put(path, after)
        return after


def _read_or_paused(path: Path) -> Told:
    try:
        return read(path)
    except NotSteering as error:
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from None
        return damaged(error)


def tidied(path: Path) -> None:
    """Remove what killed processes have left of unfinished writes: while nobody writes, what there
    is was left. Waits for nobody: where one writes now, the next start does it.

    Raises:
        OSError: the folder cannot be read, or something not be removed.
    """
    if not _unfinished(path):
        return
    try:
        with _alone(path, fcntl.LOCK_NB):
            for left in _unfinished(path):
                left.unlink(missing_ok=True)
    except BlockingIOError:
        return


def _unfinished(path: Path) -> list[Path]:
    try:
        return [f for f in path.parent.iterdir() if f.name.startswith(_partial(path))]
    except FileNotFoundError:
        return []


@contextmanager
def _alone(path: Path, how: int = 0) -> Iterator[None]:
    """No other process or thread changes what `path` says inside of the block; its folder is made.

    Raises:
        OSError: the folder, or the lock in it, cannot be used; BlockingIOError: with LOCK_NB in
            `how`, another changes it just now.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = _ours_alone(str(path.with_suffix(".lock")), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | how)
        yield
    finally:
        os.close(descriptor)


def _put(path: Path, told: Told) -> None:
    partial = path.with_name(f"{_partial(path)}{os.getpid()}")
    with open(partial, "w", encoding="utf-8", opener=_ours_alone) as file:
        json.dump(told.document(), file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)  # its new name too
    finally:
        os.close(folder)


def _ours_alone(path: str, flags: int) -> int:
    """Whatever the umask, for nobody else on this machine; by root, for the folder's owner: who may
    have put a link there, to a file that is not the owner's to have.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW, 0o600)
    if os.geteuid() == 0:  # a proxy that runs as another user must hear what root said
        folder = Path(path).parent.stat()
        os.fchown(descriptor, folder.st_uid, folder.st_gid)
    return descriptor


def _partial(path: Path) -> str:
    """How the names of unfinished files begin."""
    return f".{path.name}."
