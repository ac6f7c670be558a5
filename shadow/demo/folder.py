"""The folder that a demo writes: its own, made by it, cleared by it, held while it runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shadow.demo.failure import DemoFailed
from shadow.locks import PlaceTaken, lock

MARK = ".made-by-shadow-demo"


@contextmanager
def own(folder: Path) -> Iterator[Path]:
    """The folder, absolute, with nothing in it but `logs/`; what a demo left there is cleared.

    Raises:
        DemoFailed: something else lies there, another demo runs in it, or it cannot be written.
    """
    folder = folder.absolute()
    try:
        held = _take(folder)
    except PlaceTaken as taken:
        raise DemoFailed(str(taken)) from None
    except OSError as error:
        raise DemoFailed(f"cannot write {folder}: {error.strerror or error}") from None
    try:
        yield folder
    finally:
        os.close(held)


def _take(folder: Path) -> int:
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise DemoFailed(f"{folder} was not made by a demo; move it away, or use another --out")
    held = lock(folder / MARK, "this demo")
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != MARK:
            entry.unlink()
    (folder / "logs").mkdir()
    return held
