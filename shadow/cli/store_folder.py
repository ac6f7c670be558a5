"""The embedded store's folder where nothing serves it: commands that read it take turns."""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack
from pathlib import Path


def holder(folder: Path, stack: ExitStack, *, create: bool) -> str | None:
    """Who else has the folder; None: it is ours until the stack ends.

    Of several commands that read, one after the other opens it: the engine would print its own
    words of a lock that it cannot have.
    """
    from collector.folder import locked_by

    if create:
        folder.mkdir(parents=True, exist_ok=True)
    try:
        place = os.open(folder, os.O_RDONLY)
    except OSError:  # the opening itself says what is wrong
        return None
    with ExitStack() as ours:
        ours.callback(os.close, place)
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return locked_by(folder) or f"the store's folder {folder} is in use by another command"
        if other := locked_by(folder):
            return other
        stack.push(ours.pop_all())
    return None
