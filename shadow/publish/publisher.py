"""The way out of the proxy: a byte-bounded queue, and one thread that empties it into the stream.

The event loop only offers: a sequence, a comparison, an append. The thread wakes on its own, so
that an offer wakes nobody: it takes what has come, encodes it, appends it in batches, and appends
the ledger's record every second. See `sender` for what happens to a batch.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from shadow.exchange import Accounting
from shadow.fault import told
from shadow.publish.accounting import Ledger
from shadow.publish.sender import Abandoned, Sender
from shadow.stream import Producer

if TYPE_CHECKING:
    from shadow.ports import Publishable

WAKE_SECONDS = 0.02
ACCOUNTING_SECONDS = 1.0
BATCH_BYTES = 256 * 1024
BATCH_RECORDS = 64


Queued: TypeAlias = "tuple[int, int, Publishable]"
"""(sequence, size_bytes, item)."""


class Publisher:
    """Offers go in on the event loop; the sender thread puts them on the stream.

    Every offered item's token is released exactly once: stored or dropped.

    Args:
        connect: makes the stream's producer; called in the thread, so it may block.
        ledger: counts `captured` and `dropped`, gives sequences.
        queue_bytes: what may wait, what is in the thread's hands included.
        predecessors: dead workers' last counts; published first, then settled with the ledger.
        max_record_bytes: a larger encoded record is dropped `record_too_large`.
    """

    def __init__(
        self,
        connect: Callable[[], Producer],
        ledger: Ledger,
        queue_bytes: int,
        predecessors: Iterable[Accounting] = (),
        max_record_bytes: int = 64 * 2**20,
    ) -> None:
        self._ledger, self.queue_bytes = ledger, queue_bytes
        self._predecessors = list(predecessors)
        self._queue: deque[Queued] = deque()
        # Two counters, each with one writer, need no lock: the loop's and the thread's.
        self._offered_bytes = 0
        self._done_bytes = 0
        self._closing, self._abandon = threading.Event(), threading.Event()
        self._published_final = False
        self._sender = Sender(connect, ledger, self._abandon, self.hurried, max_record_bytes)
        self._thread = threading.Thread(target=self._run, name="shadow-sender", daemon=True)
        self._thread.start()

    @property
    def ready(self) -> bool:
        """The thread lives and its last append went through."""
        return self._thread.is_alive() and self._sender.connected

    @property
    def last_error(self) -> str | None:
        """Why it is not ready, in one line; None while it is."""
        return self._sender.last_error

    @property
    def queued_bytes(self) -> int:
        """What waits or is being sent."""
        return self._offered_bytes - self._done_bytes

    def offer(self, item: Publishable) -> bool:
        """Queue the item, or drop and count it `queue_full`. Event loop only; about 1 µs."""
        sequence = self._ledger.next_sequence()  # before the queue: a drop leaves a gap
        size_bytes = item.size_bytes
        if self._offered_bytes - self._done_bytes + size_bytes > self.queue_bytes:
            self._sender.drop(item, "queue_full")
            return False
        self._offered_bytes += size_bytes
        self._queue.append((sequence, size_bytes, item))
        return True

    def close(self, timeout: float) -> bool:
        """Send what is queued and the final record, at most `timeout` seconds; no offer after it.

        Returns:
            Whether the final record is on the stream. If not, what was left is dropped `shutdown`
            and the ledger's file must stay for the next process (`Ledger.close`).
        """
        self._closing.set()
        self._thread.join(timeout)
        self._abandon.set()
        self._thread.join(1.0)
        self._drop_rest()
        return self._published_final

    def hurried(self) -> bool:
        """Whether the thread may no longer wait for the loop's sake."""
        return self._closing.is_set() or 2 * self.queued_bytes > self.queue_bytes

    def _drop_rest(self) -> None:
        while True:
            try:
                _, size_bytes, item = self._queue.popleft()
            except IndexError:
                return
            self._done_bytes += size_bytes
            self._sender.drop(item, "shutdown")

    def _run(self) -> None:
        try:
            self._work()
        except Abandoned:
            pass  # what was in hand is dropped and counted; `close` drops the rest
        except BaseException as error:
            self._sender.last_error = f"the sender has ended: {told(error)}"
            raise
        finally:
            self._sender.close()

    def _work(self) -> None:
        for record in self._predecessors:
            if self._sender.account(record):
                self._ledger.settle(record.boot_id)
        due = time.monotonic()
        closing = False
        while not closing:
            closing = self._closing.wait(WAKE_SECONDS)
            while batch := self._batch():
                try:
                    self._sender.send(batch)
                finally:
                    self._done_bytes += sum(size_bytes for _, size_bytes, _ in batch)
                due = self._account(due)
            due = self._account(due)
        self._published_final = self._sender.account(
            self._ledger.snapshot(time.time_ns(), final=True)
        )

    def _account(self, due: float) -> float:
        """Append the ledger's record if it is due; when the next one is."""
        now = time.monotonic()
        if now < due:
            return due
        self._sender.account(self._ledger.snapshot(time.time_ns()))
        return now + ACCOUNTING_SECONDS

    def _batch(self) -> list[Queued]:
        """The oldest items, up to `BATCH_BYTES`: a giant goes alone."""
        batch: list[Queued] = []
        size_bytes = 0
        while self._queue and len(batch) < BATCH_RECORDS:
            size_bytes += self._queue[0][1]
            if batch and size_bytes > BATCH_BYTES:
                break
            batch.append(self._queue.popleft())
        return batch
