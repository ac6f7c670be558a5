"""What the sender thread does with a batch: encode, append, count, and outlive a bad world.

Rules:

1. `captured` is counted when the stream has acknowledged the record, never before.
2. A record that cannot be encoded is dropped and counted; the others of its batch go on.
3. The loop needs the interpreter's lock more than we do: after `SLICE_SECONDS` of encoding the
   thread sleeps `PAUSE_SECONDS`, unless it is hurried (the queue is half full, or we close).
4. `StreamFull` drops the batch (`log_full`), `MessageTooLarge` what it names (`record_too_large`),
   an error that nobody foresaw drops the batch too (`stream_error`) and connects anew.
   `StreamUnavailable` keeps the batch: connect again, with a capped backoff, until it is stored
   or the process gives up.
5. What the stream has on its own disk only (`spooled`) is captured, but the low water stays behind
   it: of each 256 messages the oldest request's token is held until all have gone on. Every token
   would be a hundred bytes a message, and a millisecond of the ledger's lock a second.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from shadow.exchange import Accounting, DropReason, encode
from shadow.fault import Faults
from shadow.outage import Outage
from shadow.publish.accounting import Ledger
from shadow.stream import Message, MessageTooLarge, Producer, StreamFull, StreamUnavailable

if TYPE_CHECKING:
    from shadow.ports import Publishable
    from shadow.publish.publisher import Queued

SLICE_SECONDS = 0.0004
PAUSE_SECONDS = 0.0004
FIRST_BACKOFF = 0.1
LONGEST_BACKOFF = 5.0
STEP_MESSAGES = 256

_log = structlog.get_logger("shadow.sender")


@dataclass(slots=True)
class _Step:
    messages: int = 0
    token: int | None = None
    """The oldest request's among them."""


class Abandoned(Exception):
    """The process gave up waiting for the stream."""


class Sender:
    """The stream's producer and what is known of it. `send`, `account`, `close`: one thread."""

    def __init__(
        self,
        connect: Callable[[], Producer],
        ledger: Ledger,
        abandon: threading.Event,
        hurried: Callable[[], bool],
        max_record_bytes: int,
    ) -> None:
        self._connect, self._ledger, self._abandon = connect, ledger, abandon
        self._hurried = hurried
        self._max_record_bytes = max_record_bytes
        self._producer: Producer | None = None
        self._faults = Faults()
        self._outage = Outage(_log)
        self._steps: deque[_Step] = deque()
        """The last messages, from the oldest that may still be spooled."""
        self._waiting = 0
        """How many they are."""
        self.last_error: str | None = "not connected yet"

    @property
    def connected(self) -> bool:
        """The last thing that was tried went through."""
        return self.last_error is None

    def send(self, batch: Sequence[Queued]) -> None:
        """Encode and store the batch; every item is counted and its token released.

        Raises:
            Abandoned: it was dropped `shutdown` because the process gave up.
        """
        going = self._encode_all(batch)
        try:
            refused = self._store([message for _, message in going])
        except Abandoned:
            for item, _ in going:
                self.drop(item, "shutdown")
            raise
        for index, reason in refused.items():
            self.drop(going[index][0], reason)
        stored = [item for index, (item, _) in enumerate(going) if index not in refused]
        self._hold_spooled(stored)
        self._ledger.captured((item.arm, item.token) for item in stored)

    def account(self, record: Accounting) -> bool:
        """Store an accounting record; False: the log is full, the next record says it all."""
        refused = self._store([Message(record.worker.encode(), encode(record))])
        self._hold_spooled([] if refused else [None])
        return not refused

    def _hold_spooled(self, stored: Sequence[Publishable | None]) -> None:
        """Hold what waits on the stream's disk, let go of what went on; None is an accounting."""
        spooled = getattr(self._producer, "spooled", None)
        if spooled is None:
            return
        waits = spooled()
        if stored and (waits or self._steps):
            self._join(stored)
        while self._steps and self._waiting - self._steps[0].messages >= waits:
            gone = self._steps.popleft()
            self._waiting -= gone.messages
            if gone.token is not None:
                self._ledger.release(gone.token)

    def _join(self, stored: Sequence[Publishable | None]) -> None:
        if not self._steps or self._steps[-1].messages + len(stored) > STEP_MESSAGES:
            self._steps.append(_Step())
        step = self._steps[-1]
        step.messages += len(stored)
        self._waiting += len(stored)
        oldest = min((item.token for item in stored if item is not None), default=None)
        if oldest is not None and (step.token is None or oldest < step.token):
            self._ledger.hold(oldest)
            if step.token is not None:
                self._ledger.release(step.token)
            step.token = oldest

    def drop(self, item: Publishable, reason: DropReason) -> None:
        """Count an item whose sequence was given, and let its request go. Any thread."""
        self._ledger.dropped_sequence()
        self._ledger.add(item.arm, "dropped", reason)
        self._ledger.release(item.token)

    def close(self) -> None:
        """Close the producer."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None
        if self.last_error is None:
            self.last_error = "closed"

    def _encode_all(self, batch: Sequence[Queued]) -> list[tuple[Publishable, Message]]:
        """What could be encoded, in order, in slices that leave the loop its time."""
        going: list[tuple[Publishable, Message]] = []
        slice_end = time.perf_counter() + SLICE_SECONDS
        for sequence, _, item in batch:
            message = self._encode(sequence, item)
            if message is not None:
                going.append((item, message))
            if time.perf_counter() > slice_end and not self._hurried():
                time.sleep(PAUSE_SECONDS)
                slice_end = time.perf_counter() + SLICE_SECONDS
        return going

    def _encode(self, sequence: int, item: Publishable) -> Message | None:
        """The item's message; None: it was dropped and counted."""
        try:
            message = item.message(sequence)
        except Exception as error:  # noqa: BLE001 rule 2: a foreign record must not end the thread
            self._faults.say("record dropped", error, what="not encodable")
            self.drop(item, "not_encodable")
            return None
        if len(message.value) > self._max_record_bytes:
            self.drop(item, "record_too_large")
            return None
        return message

    def _store(self, messages: Sequence[Message]) -> dict[int, DropReason]:
        """Store what the stream takes; why not, by index, for the others.

        Raises:
            Abandoned: the process gave up before the stream came back.
        """
        backoff = FIRST_BACKOFF
        while True:
            try:
                self._connected().append(messages)
                self._went_through()
                return {}  # noqa: TRY300 the loop ends here or below, in the order of the outcomes
            except MessageTooLarge as large:
                self._went_through()
                return dict.fromkeys(large.indices, "record_too_large")
            except StreamFull as full:
                self.last_error = _one_line(full)
                self._outage.away("stream full: records are dropped, log_full", self.last_error)
                return dict.fromkeys(range(len(messages)), "log_full")
            except StreamUnavailable as unavailable:
                self._lose(unavailable)
            except Exception as error:  # noqa: BLE001 a library's own fault must not end the thread
                said = self._faults.say("record dropped", error, what="the stream failed")
                self._lose(StreamUnavailable(said))
                return dict.fromkeys(range(len(messages)), "stream_error")
            if self._abandon.wait(backoff):
                raise Abandoned
            backoff = min(2 * backoff, LONGEST_BACKOFF)

    def _went_through(self) -> None:
        self.last_error = None
        self._outage.back()

    def _connected(self) -> Producer:
        if self._producer is None:
            self._producer = self._connect()
        return self._producer

    def _lose(self, unavailable: StreamUnavailable) -> None:
        """Drop the connection; the next try makes another."""
        self.last_error = _one_line(unavailable)
        self._outage.away("stream away: records wait in memory", self.last_error)
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
