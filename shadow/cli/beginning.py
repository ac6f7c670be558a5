"""What has to be free before a supervisor starts anything: its own place, then its workers'."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from shadow.config import ConfigError
from shadow.locks import PlaceTaken, lock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from shadow.config import Config


@contextmanager
def alone(config: Config, command: str) -> Iterator[None]:
    """Hold the place of the one supervisor of this kind in the state folder.

    A folder that cannot be written is the proxy's to judge: it can serve without one.

    Raises:
        ConfigError: it runs here already, or a worker that outlived its supervisor does.
    """
    held = _supervisors_place(config.state, command)
    try:
        for n in range(config.workers):
            _workers_place(config.state, n)
        yield
    finally:
        if held is not None:
            os.close(held)


def _supervisors_place(state: Path, command: str) -> int | None:
    try:
        return lock(state / f"{command}.lock", command)
    except PlaceTaken as taken:
        who = f"process {taken.owner}" if taken.owner else "another process"
        way = f"kill {taken.owner} drains it" if taken.owner else "end it first"
        raise ConfigError(f"{command} ({who}) runs here already (state: {state}); {way}") from None
    except OSError:
        return None


def _workers_place(state: Path, worker: int) -> None:
    """Nobody restarts a worker whose supervisor is gone: its process is the one to end."""
    try:
        with suppress(OSError):
            os.close(lock(state / f"{worker}.lock", f"the worker's place {worker}"))
    except PlaceTaken as taken:
        raise ConfigError(f"state: {taken}") from None
