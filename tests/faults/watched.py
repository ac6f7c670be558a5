"""`shadow proxy` as it is, beside a timer that writes down how long its loop was held.

    python watched.py FILE proxy -c shadow.yaml

A line of FILE a tick: when (monotonic, s), by how many ms the tick was late, and how many of these
the process' threads stood in the system's queue for a core, which is not the proxy's doing.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
from pathlib import Path
from time import monotonic

from shadow.app import Proxy
from shadow.cli.entry import main

TICK_S = 0.002


class Watch:
    """Ticks on the running loop."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("w", buffering=1 << 16)  # noqa: SIM115 open until the process ends
        self._loop = asyncio.get_running_loop()
        atexit.register(self._file.close)
        self._ticks = 0
        self._threads: dict[str, tuple[int, int]] = {}
        self._due = monotonic() + TICK_S
        self._loop.call_later(TICK_S, self._tick)

    def _waited_ms(self) -> float:
        """How long the process' threads have stood in the queue since the last tick: one that has
        the interpreter's lock holds the loop meanwhile.
        """
        if self._ticks % 50 == 0:
            for path in Path("/proc/self/task").iterdir():
                if path.name not in self._threads:
                    file = os.open(path / "schedstat", os.O_RDONLY)
                    self._threads[path.name] = file, _waited_ns(file)
        self._ticks += 1
        waited_ns = 0
        for name, (file, before) in list(self._threads.items()):
            try:
                now = _waited_ns(file)
            except OSError:  # the thread has ended
                os.close(file)
                del self._threads[name]
            else:
                waited_ns += now - before
                self._threads[name] = file, now
        return waited_ns / 1e6

    def _tick(self) -> None:
        late_ms = 1e3 * (monotonic() - self._due)
        self._file.write(f"{monotonic():.4f} {late_ms:.2f} {self._waited_ms():.2f}\n")
        self._due = monotonic() + TICK_S
        self._loop.call_later(TICK_S, self._tick)


def _waited_ns(file: int) -> int:
    return int(os.pread(file, 100, 0).split()[1])


start = Proxy.start


async def watched(proxy: Proxy) -> None:
    await start(proxy)
    proxy.watch = Watch(path)


if __name__ == "__main__":
    path = sys.argv.pop(1)
    Proxy.start = watched
    main()
