"""The demo's processes: each with a log of its own, all of them ended with the demo."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from shadow.demo.failure import DemoFailed

STOP_S = 45.0
"""How long a child may take to end by itself; the proxy, collector and analysis drain."""
AGAIN_S = 5.0
TICK_S = 0.05


@dataclass(frozen=True, slots=True)
class Child:
    """A running process and where its output goes."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def check(self) -> None:
        """Raise with the last line that it wrote, if it has ended.

        Raises:
            DemoFailed: it has.
        """
        if self.process.poll() is not None:
            raise DemoFailed(f"{self.name} ended by itself: {last_line(self.log)}")


class Children:
    """Starts processes and knows them in their order; `stop` ends them, the last one first."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.running: list[Child] = []

    def start(
        self, name: str, argv: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Child:
        """Start `argv` in a session of its own, so that Ctrl-C reaches the demo alone."""
        log = self.logs / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 our own command line
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )
        child = Child(name, process, log)
        self.running.append(child)
        return child

    def stop(self, within_s: float = STOP_S) -> list[str]:
        """End all; names of those that had to be told twice, or killed."""
        deadline, slow = time.monotonic() + within_s, []
        while self.running:
            child = self.running[-1]
            if not _ended(child.process, max(0.1, deadline - time.monotonic())):
                slow.append(child.name)
                if not _ended(child.process, AGAIN_S):  # `shadow up` cuts at a second signal
                    child.process.kill()
                    child.process.wait()
            self.running.pop()
        return slow


@contextmanager
def children(logs: Path) -> Iterator[Children]:
    """All processes end with the block, also by Ctrl-C, SIGTERM or an error."""
    started = Children(logs)
    previous = signal.signal(signal.SIGTERM, _terminated)
    try:
        yield started
    finally:
        try:
            started.stop()
        except KeyboardInterrupt:  # a second Ctrl-C: no more patience
            started.stop(0)
        signal.signal(signal.SIGTERM, previous)


def until(ready: Callable[[], bool], child: Child, within_s: float) -> None:
    """Wait until `ready`, watching that the child lives.

    Raises:
        DemoFailed: it ended, or was not ready in time.
    """
    deadline = time.monotonic() + within_s
    while not ready():
        child.check()
        if time.monotonic() > deadline:
            raise DemoFailed(f"{child.name} was not ready within {within_s:g} s")
        time.sleep(TICK_S)


def _ended(process: subprocess.Popen[bytes], within_s: float) -> bool:
    process.terminate()
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def last_line(log: Path) -> str:
    """The last line with anything on it."""
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it wrote nothing"


def _terminated(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)
