"""`shadow proxy` as it is, beside a timer that writes down how long its loop was held.

    python watched.py FILE proxy -c shadow.yaml

A line of FILE a tick: when (monotonic, s), by how many ms the tick was late, and how many of these
the loop's thread stood in the system's queue for a core, which is not the proxy's doing.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import threading
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
        task = threading.get_native_id()
        self._queued = os.open(f"/proc/self/task/{task}/schedstat", os.O_RDONLY)
        self._waited = self._waited_s()
        self._due = monotonic() + TICK_S
        self._loop.call_later(TICK_S, self._tick)

    def _waited_s(self) -> float:
        return int(os.pread(self._queued, 100, 0).split()[1]) / 1e9

    def _tick(self) -> None:
        now, waited = monotonic(), self._waited_s()
        late_ms, queued_ms = 1e3 * (now - self._due), 1e3 * (waited - self._waited)
        self._file.write(f"{now:.4f} {late_ms:.2f} {queued_ms:.2f}\n")
        self._waited = waited
        self._due = monotonic() + TICK_S
        self._loop.call_later(TICK_S, self._tick)


start = Proxy.start


async def watched(proxy: Proxy) -> None:
    await start(proxy)
    proxy.watch = Watch(path)


if __name__ == "__main__":
    path = sys.argv.pop(1)
    Proxy.start = watched
    main()
