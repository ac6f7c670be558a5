"""The threads that statements run in, and the one that stops them."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from collector.embedded.pipe import Pipe
from collector.embedded.worker import Item, Job, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from collector.embedded.engine import Engine

WORKERS = 4
"""Statements that run at once of who shows the password, and as many of the others; more wait, so
that nobody's readers keep our own waiting. chDB runs as many as there are handles."""


class Threads:
    """See the module. Asked from the loop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._workers = ThreadPoolExecutor(WORKERS, "store-worker")
        self._readers = ThreadPoolExecutor(WORKERS, "store-reader")
        self._stopper = ThreadPoolExecutor(1, "store-stopper")
        self._running: set[str] = set()

    @contextmanager
    def running(self, job: Job) -> Iterator[Pipe[Item]]:
        """The job's pipe, while it runs; where the block is left by an error, it is stopped."""
        pipe: Pipe[Item] = Pipe()
        mark = job.query.frame.mark
        self._running.add(mark)
        threads = self._workers if job.query.bounds is None else self._readers
        work = threads.submit(run, self._engine, job, pipe)
        try:
            yield pipe
        except BaseException:  # the client left, or the interface ends
            pipe.leave()
            if work.cancel():
                job.body.close()
            else:
                self._stopper.submit(self._engine.stop_reading, mark)
            raise
        finally:
            self._running.discard(mark)

    def stop_reading(self) -> None:
        """Stop all that read; what writes runs to its end."""
        for mark in self._running:
            self._stopper.submit(self._engine.stop_reading, mark)

    async def close(self) -> None:
        """Wait for them."""
        for threads in (self._workers, self._readers, self._stopper):
            await asyncio.to_thread(threads.shutdown)
