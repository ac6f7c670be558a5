"""`shadow proxy` as it is, beside a timer that writes down how long its loop was held.

    python watched.py FILE proxy -c shadow.yaml

A line of FILE a tick: when (monotonic, s), by how many ms it was late, and how many of these the
process held the loop; the others the loop, or who was in its way, stood in the system's queue.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
from pathlib import Path
from resource import RUSAGE_THREAD, getrusage
from threading import get_native_id
from time import monotonic, process_time, thread_time
from typing import NamedTuple

TICK_S = 0.002
LOCK_MS = 1e3 * sys.getswitchinterval()
HOSTS = 2
"""So many ticks, of however many, may be the host's in a way that does not show: a virtual machine
that stood still. What holds the loop a third time is seen, so what does so regularly is."""


class Spent(NamedTuple):
    """From one tick to the next, in ms: what the loop's thread ran and stood in the queue for a
    core, and how often it waited otherwise; the other threads: all that they ran, and the longest
    that one of them stood in the queue.
    """

    ran_ms: float
    queued_ms: float
    waits: int
    others_ran_ms: float
    other_queued_ms: float


def held_ms(late_ms: float, spent: Spent) -> float:
    """How much of a tick's lateness is the process's doing.

    The loop's own wait for a core is not. The rest of what it did not run it was blocked: by a
    system call, or by who had the interpreter's lock. Of that it is the host's doing where no other
    thread of the process ran, as long as one of them waited for a core, and only for the lock: who
    waits for that looks again every `LOCK_MS`; one more wait is the timer's. So whatever runs, on
    the loop or with the lock, counts, and so does a long call, beside however many threads.
    """
    queued_ms = min(spent.queued_ms, late_ms)
    blocked_ms = max(late_ms - queued_ms - spent.ran_ms - spent.others_ran_ms, 0.0)
    lock_ms = LOCK_MS * max(spent.waits - 1, 0)
    return late_ms - queued_ms - min(spent.other_queued_ms, blocked_ms, lock_ms)


def most_held_ms(ticks: list[float]) -> float:
    """The longest hold that counts."""
    return sorted(ticks)[-HOSTS - 1]


class Threads:
    """What they ran and waited, ever."""

    def __init__(self) -> None:
        self._own = str(get_native_id())
        self._files: dict[str, int] = {}
        self._queued_ms: dict[str, float] = {}
        self._looks = 0
        self._ran_ms = self._others_ran_ms = 0.0
        self._waits = 0
        self.spent()

    def spent(self) -> Spent:
        """Since the last call."""
        if self._looks % 50 == 0:
            self._find()
        self._looks += 1
        queued_ms = {name: self._queued(name) for name in list(self._files)}
        own_ms = queued_ms.pop(self._own)
        before_ms, self._ran_ms = self._ran_ms, 1e3 * thread_time()
        others_before_ms, self._others_ran_ms = (
            self._others_ran_ms,
            1e3 * process_time() - self._ran_ms,
        )
        waited, self._waits = self._waits, getrusage(RUSAGE_THREAD).ru_nvcsw
        return Spent(
            self._ran_ms - before_ms,
            own_ms,
            self._waits - waited,
            self._others_ran_ms - others_before_ms,
            max(queued_ms.values(), default=0.0),
        )

    def _find(self) -> None:
        for path in Path("/proc/self/task").iterdir():
            if path.name not in self._files:
                self._files[path.name] = os.open(path / "schedstat", os.O_RDONLY)
                self._queued(path.name)

    def _queued(self, name: str) -> float:
        file = self._files[name]
        try:
            now_ms = int(os.pread(file, 100, 0).split()[1]) / 1e6
        except OSError:  # the thread has ended
            os.close(file)
            del self._files[name]
            return 0.0
        before_ms = self._queued_ms.get(name, now_ms)
        self._queued_ms[name] = now_ms
        return now_ms - before_ms

    def close(self) -> None:
        """Its files."""
        for file in self._files.values():
            os.close(file)
        self._files.clear()


class Watch:
    """Ticks on the running loop."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("w", buffering=1 << 16)  # noqa: SIM115 open until the process ends
        self._loop = asyncio.get_running_loop()
        self._threads = Threads()
        atexit.register(self._file.close)
        self._wait()

    def _wait(self) -> None:
        self._due = monotonic() + TICK_S
        self._handle = self._loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        late_ms = 1e3 * (monotonic() - self._due)
        held = held_ms(late_ms, self._threads.spent())
        self._file.write(f"{monotonic():.4f} {late_ms:.2f} {held:.2f}\n")
        self._wait()

    def close(self) -> None:
        """End it."""
        self._handle.cancel()
        self._file.close()
        self._threads.close()


if __name__ == "__main__":
    from shadow.app import Proxy
    from shadow.cli.entry import main

    start = Proxy.start

    async def watched(proxy: Proxy) -> None:
        """As it starts."""
        await start(proxy)
        proxy.watch = Watch(path)

    path = sys.argv.pop(1)
    Proxy.start = watched
    main()
