"""A remote stream that may be away: what it does not take waits in an embedded log, in order.

Rules:

1. While something waits, everything new waits behind it: one worker's order is kept.
2. What waits is bounded (`StreamFull`, counted `log_full`), survives the process, and is sent by
   the worker's next one before anything new.
3. What is sent and not yet ticked off when the process dies is sent twice: readers are idempotent.
4. A message that the remote can never take is made smaller, never in the way of others. One that
   even so is too large is refused: by `MessageTooLarge` where the remote says so at once, else,
   after it waited, by a call of `refused`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import structlog

from shadow.fault import told
from shadow.outage import Outage
from shadow.stream import Delivered, Message, MessageTooLarge, Producer, StreamUnavailable
from shadow.stream.embedded import EmbeddedConsumer, EmbeddedProducer
from shadow.stream.embedded.folder import PARTITION_SUFFIX, read_offsets
from shadow.stream.embedded.sqlite import open_reader, translated

GROUP = "spill"
STEP_RECORDS = 256
STEP_BYTES = 4 * 2**20
FIRST_BACKOFF = 0.25
LONGEST_BACKOFF = 10.0
CLOSE_SECONDS = 5.0

_AWAY = "stream away: records wait on disk"
_log = structlog.get_logger("shadow.stream")

Refused = Callable[[Message], None]
"""Told of a message that was taken, waited, and can never be sent. In the draining thread."""
Shrink = Callable[[bytes, int], bytes | None]
"""A value and the most bytes it may have: a smaller value that says so, or None."""


def unread(folder: Path, worker: str) -> int:
    """How many records of the worker wait in the folder."""
    path = folder / f"{worker}{PARTITION_SUFFIX}"
    done = read_offsets(folder, GROUP).get(worker, 0)
    query = "SELECT coalesce(sum(first + count - max(first, ?1)), 0) FROM batches"
    with translated(path), closing(open_reader(path)) as db:
        return int(db.execute(f"{query} WHERE first + count > ?1", (done,)).fetchone()[0])


class Spill:
    """A `shadow.stream.Producer` in front of a remote one. `append` and `close`: one thread.

    Args:
        remote: where records belong; used by one thread at a time.
        folder: of this worker alone.
        worker: its name; the next process of that name finds what was left.
        max_bytes: what may wait.
        shrink: for a message that the remote can never take; without it, such a one is refused.
        refused: hears of those that were refused after they had waited.
    """

    def __init__(
        self,
        remote: Producer,
        folder: Path,
        worker: str,
        max_bytes: int = 2**30,
        shrink: Shrink | None = None,
        refused: Refused = lambda _message: None,
    ) -> None:
        self._remote, self._shrink, self._refused = remote, shrink, refused
        self._folder, self._worker, self._max_bytes = folder, worker, max_bytes
        self._spool: EmbeddedProducer | None = None
        self._spooled = 0
        self._direct = True
        """Nothing waits: what comes goes to the remote."""
        self._draining: threading.Thread | None = None
        self._turn = threading.Lock()
        self._closing = threading.Event()
        self._close_by = 0.0
        self._limit_bytes = 0
        self.refused_total = 0
        """Messages that even shrunk were too large for the remote."""
        self.last_error: str | None = None
        """Why the remote took nothing when it was last asked; None: it did."""
        self._outage = Outage(_log)

    def spooled(self) -> int:
        """How many messages wait: always the last ones that were appended. Any thread.

        So a caller that remembers the arrivals of its last `spooled()` messages knows its low
        water; what a former process left is counted too, as the oldest.
        """
        return self._spooled

    def append(self, batch: Sequence[Message]) -> None:
        """Give the batch to the remote, or to the disk while that is away.

        Raises:
            StreamFull: the bound of what may wait is reached.
            StreamUnavailable: the folder cannot be used.
            MessageTooLarge: some are too large for the remote, even shrunk; all others are stored.
        """
        spool = self._opened()
        with self._turn:
            if self._direct and (refused := self._sent(batch)) is not None:
                if refused:
                    raise MessageTooLarge(refused, self._limit_bytes)
                return
            spool.append(batch)
            self._spooled += len(batch)
            self._ensure_draining()

    def close(self) -> None:
        """Send what waits if the remote is there, for `CLOSE_SECONDS` at most; the rest stays."""
        self._close_by = time.monotonic() + CLOSE_SECONDS
        self._closing.set()
        draining = self._draining
        if draining is not None:
            draining.join(CLOSE_SECONDS)
        if self._spool is not None:
            self._spool.close()
            self._spool = None
        if draining is None or not draining.is_alive():  # else it is blocked in the remote
            self._remote.close()

    def _opened(self) -> EmbeddedProducer:
        """Not before the first append: SQLite's connection belongs to the thread that opens it."""
        if self._spool is None:
            self._spool = EmbeddedProducer(self._folder, self._worker, self._max_bytes)
            self._spooled = unread(self._folder, self._worker)
            if self._spooled:
                self._ensure_draining()
        return self._spool

    def _ensure_draining(self) -> None:
        if self._draining is not None and not self._direct and self._draining.is_alive():
            return
        if self._draining is not None:
            self._draining.join()  # it has nothing left to do but to close its reader
        self._direct = False
        name = f"shadow-spill-{self._worker}"
        self._draining = threading.Thread(target=self._drain, name=name, daemon=True)
        self._draining.start()

    def _drain(self) -> None:
        """Until nothing waits, or the worker ends; if the folder fails, or the remote in a way that
        nobody foresaw, until the next append.
        """
        try:
            with closing(EmbeddedConsumer(self._folder, GROUP, STEP_BYTES)) as waiting:
                while batch := self._next(waiting):
                    if (refused := self._sent_at_last(batch)) is None:
                        break
                    waiting.commit({batch[-1].partition: batch[-1].offset + 1})
                    for n in refused:
                        self._refused(Message(batch[n].key, batch[n].value))
                    with self._turn:
                        self._spooled -= len(batch)
        except StreamUnavailable as unavailable:
            self._away(unavailable)
        except Exception as error:  # noqa: BLE001 a library's own fault: again at the next append
            self._away(StreamUnavailable(told(error)))

    def _away(self, unavailable: StreamUnavailable) -> None:
        self.last_error = " ".join(str(unavailable).split())
        self._outage.away(_AWAY, self.last_error, folder=str(self._folder))

    def _next(self, waiting: EmbeddedConsumer) -> Sequence[Delivered]:
        """What waits longest; empty: the end, and the remote's turn again."""
        if self._closing.is_set() and time.monotonic() > self._close_by:
            return ()
        if batch := waiting.poll(STEP_RECORDS, 0.0):
            return batch
        with self._turn:  # nothing can come in between now
            batch = waiting.poll(STEP_RECORDS, 0.0)
            self._direct = not batch
            return batch

    def _sent_at_last(self, batch: Sequence[Delivered]) -> list[int] | None:
        """Which were too large; None: the worker ends first."""
        messages = [Message(record.key, record.value) for record in batch]
        backoff = FIRST_BACKOFF
        while (refused := self._sent(messages)) is None:
            if self._closing.wait(backoff):
                return None
            backoff = min(2 * backoff, LONGEST_BACKOFF)
        return refused

    def _sent(self, batch: Sequence[Message]) -> list[int] | None:
        """Which were too large, all others being stored; None: the remote is away."""
        try:
            refused = self._send(batch)
        except StreamUnavailable as unavailable:
            self._away(unavailable)
            return None
        self.last_error = None
        self._outage.back(waiting=self._spooled)
        self.refused_total += len(refused)
        return refused

    def _send(self, batch: Sequence[Message]) -> list[int]:
        try:
            self._remote.append(batch)
        except MessageTooLarge as large:
            self._limit_bytes = large.limit_bytes
            return self._send_smaller({n: batch[n] for n in large.indices})
        return []

    def _send_smaller(self, large: Mapping[int, Message]) -> list[int]:
        small = {n: self._smaller(message) for n, message in large.items()}
        going = {n: message for n, message in small.items() if message is not None}
        refused = [n for n in large if n not in going]
        try:
            self._remote.append(list(going.values()))
        except MessageTooLarge as again:
            refused += [list(going)[n] for n in again.indices]
        return sorted(refused)

    def _smaller(self, message: Message) -> Message | None:
        value = self._shrink(message.value, self._limit_bytes) if self._shrink else None
        return None if value is None else Message(message.key, value)
