"""The folder that a demo writes: its own, made by it, cleared by it, nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

from shadow.demo.failure import DemoFailed

MARK = ".made-by-shadow-demo"


def make(folder: Path) -> Path:
    """An empty folder, absolute. One that a demo made before is cleared first.

    Raises:
        DemoFailed: something else lies there, or it cannot be written.
    """
    folder = folder.absolute()
    try:
        if folder.is_dir() and any(folder.iterdir()):
            _clear(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARK).touch()
        (folder / "logs").mkdir()
    except OSError as error:
        raise DemoFailed(f"cannot write {folder}: {error.strerror or error}") from None
    return folder


def _clear(folder: Path) -> None:
    if not (folder / MARK).exists():
        raise DemoFailed(f"{folder} was not made by a demo; move it away, or use another --out")
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
