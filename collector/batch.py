"""What is to be stored next, and how far the stream is done once it is. Pure: no clock, no I/O.

A batch closes by its records, its bytes or its age, whichever comes first. Offsets travel with
what they stand for: the batch that holds a record's rows or its dead letter holds its offset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from collector.rows import Row
from shadow.stream import Delivered, Partition

_LARGE = ("request", "answer", "raw")


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """When a batch closes."""

    records: int = 5000
    bytes: int = 64 * 1024 * 1024
    """Of the records' wire form and of the bodies that they unfold to."""
    age_s: float = 1.0
    """Since its first record."""


@dataclass(frozen=True, slots=True)
class BadValue:
    """A record that fails the same way however often it is read, and why."""

    delivered: Delivered
    reason: str


@dataclass(frozen=True, slots=True)
class Sourced:
    """A row, and the record it came from: what becomes a dead letter if the store refuses it."""

    row: Row
    delivered: Delivered


@dataclass(slots=True)
class Batch:
    """An open batch. Times are seconds of any clock that never goes back."""

    limits: BatchLimits
    tables: dict[str, list[Sourced]] = field(default_factory=dict)
    bad: list[BadValue] = field(default_factory=list)
    offsets: dict[Partition, int] = field(default_factory=dict)
    """Partition → the offset after its last record in the batch."""
    records: int = 0
    bytes: int = 0
    opened_at: float | None = None

    def add_rows(self, delivered: Delivered, rows: Mapping[str, Sequence[Row]], now: float) -> None:
        """Take a record's rows."""
        for table, some in rows.items():
            if not some:  # a record of no counters has no rows of them
                continue
            self.tables.setdefault(table, []).extend(Sourced(row, delivered) for row in some)
        self.bytes += sum(len(row[name]) for row in rows.get("bodies", ()) for name in _LARGE)
        self._count(delivered, now)

    def add_bad(self, delivered: Delivered, reason: str, now: float) -> None:
        """Take a record that is to become a dead letter."""
        self.bad.append(BadValue(delivered, reason))
        self._count(delivered, now)

    def is_full(self) -> bool:
        """Whether it holds as much as it may."""
        return self.records >= self.limits.records or self.bytes >= self.limits.bytes

    def closes_in(self, now: float) -> float:
        """Seconds until its age closes it; the whole age where it is empty."""
        if self.opened_at is None:
            return self.limits.age_s
        return max(0.0, self.opened_at + self.limits.age_s - now)

    def is_due(self, now: float) -> bool:
        """Whether it is to be stored now."""
        return self.records > 0 and (self.is_full() or self.closes_in(now) == 0.0)

    def _count(self, delivered: Delivered, now: float) -> None:
        self.offsets[delivered.partition] = delivered.offset + 1
        self.records += 1
        self.bytes += len(delivered.value)
        if self.opened_at is None:
            self.opened_at = now
