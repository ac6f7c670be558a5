"""What could not be stored, kept with its original bytes and the reason."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from collector.origin import UNKNOWN, Origin
from collector.store_errors import StoreRefused
from shadow.stream import Delivered
from shadow.stream.kafka import producer as kafka

if TYPE_CHECKING:
    from collections.abc import Sequence

    from collector.writer import Writer
    from shadow.stream.kafka import KafkaDeadLetters

_COLUMNS = ("at", "source", "reason", "key", "value")
_ORIGIN = ("experiment", "worker", "boot_id", "sequence")


@dataclass(frozen=True)
class DeadLetter:
    """A record that fails the same way however often it is tried.

    Attributes:
        at_ns: when it was given up, UTC, nanoseconds since 1970.
        source: `partition:offset`.
        reason: one line.
        key, value: the record's bytes as they came.
        origin: the exchange that it was, if its row is missing for it.
    """

    at_ns: int
    source: str
    reason: str
    key: bytes
    value: bytes
    origin: Origin = UNKNOWN


_REMEMBERED_NS = 7 * 86_400 * 10**9
"""As long as a stream keeps its records: a topic that is made anew may use its offsets again."""


class DeadLetters:
    """Gathers dead letters of a batch; `flush` before its offsets are committed."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._open: list[DeadLetter] = []

    def add(self, letter: DeadLetter) -> None:
        """Keep the letter until the next flush."""
        self._open.append(letter)

    def clear(self) -> None:
        """Forget what was not flushed: on a revoked partition, the next owner finds it again."""
        self._open.clear()

    def flush(self) -> int:
        """Store the letters and return how many there were.

        A letter that is there already (a redelivery, however its batch was cut) is left out.

        Raises:
            StoreUnavailable, StoreRefused: they are not stored, and still kept here; do not commit.
        """
        if not self._open:
            return 0
        known = self._writer.known_letters(
            [each.source for each in self._open],
            min(each.at_ns for each in self._open) - _REMEMBERED_NS,
        )
        fresh = [each for each in self._open if each.source not in known]
        rows = [_row(each) for each in fresh]
        columns = (*_COLUMNS, *_ORIGIN)
        if refused := self._writer.insert("dead_letters", columns, rows, _token(fresh)):
            first = refused[0]
            message = f"dead letter of {fresh[first.index].source}: {first.reason}"
            raise StoreRefused(None, message)
        count = len(self._open)
        self._open.clear()
        return count


def _row(letter: DeadLetter) -> tuple[Any, ...]:
    said = (letter.at_ns, letter.source, letter.reason, letter.key, letter.value)
    return (*said, *(getattr(letter.origin, name) for name in _ORIGIN))


class TopicLetters:
    """Dead letters of a Kafka stream: to their own topic, and to the table that people read."""

    def __init__(self, topic: KafkaDeadLetters, table: DeadLetters) -> None:
        self._topic, self._table = topic, table
        self._open: list[DeadLetter] = []

    def add(self, letter: DeadLetter) -> None:
        """Keep the letter until the next flush."""
        self._open.append(letter)
        self._table.add(letter)

    def clear(self) -> None:
        """Forget what was not flushed."""
        self._open.clear()
        self._table.clear()

    def flush(self) -> int:
        """Store the letters in both places and return how many there were.

        Raises:
            StreamUnavailable, StoreUnavailable, StoreRefused: do not commit.
        """
        if self._open:
            self._topic.dead_letter([_delivered(letter) for letter in self._open])
        count = self._table.flush()
        self._open.clear()
        return count


def _delivered(letter: DeadLetter) -> kafka.DeadLetter:
    partition, _, offset = letter.source.rpartition(":")
    return kafka.DeadLetter(
        Delivered(partition, int(offset), letter.key, letter.value), letter.reason
    )


def _token(letters: Sequence[DeadLetter]) -> str:
    sources = "\n".join(letter.source for letter in letters)
    return "dead_letters:" + hashlib.sha256(sources.encode()).hexdigest()
