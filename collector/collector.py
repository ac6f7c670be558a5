"""The loop: poll → decode → batch → INSERT → dead letters → COMMIT.

Rules:
1. Insert, flush dead letters, commit: three adjacent lines in `_store`, and nowhere else. What
   fails before the commit is read again; the tables replace what is inserted twice.
2. A bad value goes to dead letters with its bytes and its reason, and its offset advances. A bad
   world is waited for with capped backoff (the writer does so for the store), then raised: the
   process ends, and the next one begins at the committed offsets.
3. Before partitions are taken away the open batch is stored; if that cannot be done it raises.
   It is never kept: a later commit would carry offsets of partitions that are no longer ours.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import structlog

from collector.bad_ratio import BadRatio
from collector.batch import Batch, BatchLimits, Sourced
from collector.dead_letters import DeadLetter
from collector.decode import is_unreadable, rows_of
from collector.origin import UNKNOWN, Origin, origin_of, records_in
from collector.patience import Backoff, patiently
from collector.rows import DECODER_VERSION
from collector.status import Status
from collector.tokenizer import CountTokens
from collector.writer import Refused
from shadow.exchange import MalformedRecord
from shadow.stream import Consumer, Delivered, Partition, StreamUnavailable

_POLL_RECORDS = 500
_LONGEST_POLL_S = 0.25  # how late a stop may be noticed

T = TypeVar("T")
_log = structlog.get_logger("collector")


class Inserts(Protocol):
    """What the loop asks of `collector.writer.Writer`."""

    def insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], token: str
    ) -> list[Refused]:
        """Store the rows; those that the store does not take are returned."""


class Letters(Protocol):
    """What the loop asks of `collector.dead_letters.DeadLetters`."""

    def add(self, letter: DeadLetter) -> None:
        """Keep the letter until the next flush."""

    def clear(self) -> None:
        """Forget what was not flushed."""

    def flush(self) -> int:
        """Store the letters; how many there were."""


@dataclass
class Collector:
    """One consumer, one writer, one thread."""

    consumer: Consumer
    writer: Inserts
    dead_letters: Letters
    capture: str
    limits: BatchLimits = field(default_factory=BatchLimits)
    count_tokens: Mapping[str, CountTokens] = field(default_factory=dict)
    ratio: BadRatio = field(default_factory=BadRatio)
    backoff: Backoff = field(default_factory=Backoff)
    clock: Callable[[], float] = time.monotonic
    now_ns: Callable[[], int] = time.time_ns
    sleep: Callable[[float], None] = time.sleep
    status: Status = field(default_factory=Status)

    def __post_init__(self) -> None:
        self._batch = Batch(self.limits)
        self.consumer.on_revoked(self._revoked)

    def run(self, stopping: Callable[[], bool], drain_s: float = 10.0) -> None:
        """Collect until `stopping`, then what the stream still holds, `drain_s` at most.

        Raises:
            StreamUnavailable, StoreUnavailable: a bad world that did not mend.
            StoreRefused: the store takes nothing of ours: tables, rights.
            TooManyBadValues: see `BadRatio`.
        """
        while not stopping():
            self.step(_LONGEST_POLL_S)
        deadline = self.clock() + drain_s
        while self.clock() < deadline and self.step(0.0):
            pass
        self._store()

    def step(self, longest_s: float) -> int:
        """Poll once, take what came, store what is due; how many records came."""
        wait = min(longest_s, self._batch.closes_in(self.clock()))
        records = self._patiently(lambda: self.consumer.poll(_POLL_RECORDS, wait))
        for delivered in records:
            self._take(delivered)
            if self._batch.is_full():
                self._store()
        if self._batch.is_due(self.clock()):
            self._store()
        return len(records)

    def _take(self, delivered: Delivered) -> None:
        self.status.records_total += 1
        if delivered.damage:
            self._take_damaged(delivered)
            return
        try:
            rows = rows_of(delivered.value, self.capture, self.count_tokens)
        except MalformedRecord as error:
            self.ratio.bad(source_of(delivered), str(error))
            self._batch.add_bad(delivered, str(error), self.clock())
            return
        self.ratio.good()
        self.status.unreadable_total += is_unreadable(rows)
        self._batch.add_rows(delivered, rows, self.clock())

    def _take_damaged(self, delivered: Delivered) -> None:
        """Every record that began in the damaged bytes is a letter of its own."""
        self.ratio.bad(source_of(delivered), delivered.damage)
        for piece in records_in(delivered.value):
            part = replace(delivered, value=piece)
            self._batch.add_bad(part, delivered.damage, self.clock())

    def _store(self) -> None:
        """Store the batch and open the next one."""
        if self._batch.records:
            self._insert(self._batch)
            letters = self.dead_letters.flush()
            self._commit(self._batch.offsets)
            self._count(letters)
        self._batch = Batch(self.limits)

    def _count(self, letters: int) -> None:
        self.status.dead_letters_total += letters
        if letters:
            _log.warning("dead letters stored", count=letters, total=self.status.dead_letters_total)

    def _insert(self, batch: Batch) -> None:
        self.dead_letters.clear()  # of an earlier try that failed
        for bad in batch.bad:
            self._give_up(bad.delivered, bad.reason, origin_of(bad.delivered.value))
        for table, sourced in batch.tables.items():
            rows = [tuple(each.row.values()) for each in sourced]
            columns = list(sourced[0].row)
            for refused in self.writer.insert(table, columns, rows, self._token(table, sourced)):
                delivered = sourced[refused.index].delivered
                reason = f"{table}: {refused.reason}"
                self.ratio.bad(source_of(delivered), reason)
                missing = table == "exchanges"  # of another table's row the exchange is stored
                origin = origin_of(delivered.value) if missing else UNKNOWN
                self._give_up(delivered, reason, origin)

    def _give_up(self, delivered: Delivered, reason: str, origin: Origin) -> None:
        source, key, value = source_of(delivered), delivered.key, delivered.value
        self.dead_letters.add(DeadLetter(self.now_ns(), source, reason, key, value, origin))

    def _commit(self, offsets: Mapping[Partition, int]) -> None:
        self._patiently(lambda: self.consumer.commit(offsets))

    def _revoked(self, _partitions: Collection[Partition]) -> None:
        self._store()

    def _patiently(self, action: Callable[[], T]) -> T:
        return patiently(
            action, StreamUnavailable, self.backoff, self.clock, self.sleep, self.status.told
        )

    def _token(self, table: str, sourced: Sequence[Sourced]) -> str:
        """The same for the same rows: made of where they came from and how they were read."""
        digest = hashlib.sha256(f"{DECODER_VERSION} {self.capture}".encode())
        for each in sourced:
            digest.update(f"\n{source_of(each.delivered)}".encode())
        return f"{table}:{digest.hexdigest()}"


def source_of(delivered: Delivered) -> str:
    """`partition:offset`, as dead letters name a record."""
    return f"{delivered.partition}:{delivered.offset}"
