"""Kafka's writing ends: exchanges to their topic, dead letters to theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shadow.stream import Delivered, Message, MessageTooLarge
from shadow.stream.kafka.settings import KafkaSettings
from shadow.stream.kafka.writer import Record, TopicWriter


class KafkaProducerStream:
    """See `shadow.stream.Producer`. For one thread.

    The first append connects; each may block up to `connect_timeout` plus `append_timeout`.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._writer = TopicWriter(settings, settings.topic)

    def append(self, batch: Sequence[Message]) -> None:
        """Store the whole batch on every replica in sync, or raise; see `TopicWriter.write`."""
        self._writer.write([Record(message.key, message.value) for message in batch])

    def close(self) -> None:
        """Leave."""
        self._writer.close()


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that will fail the same way however often it is read, and why."""

    delivered: Delivered
    reason: str


class KafkaDeadLetters:
    """The topic of dead letters: original key and bytes, the rest in headers.

    Headers: `source-partition`, `source-offset`, `reason`; where the value had to be cut to fit,
    `truncated-bytes` says by how much.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._writer = TopicWriter(settings, settings.dead_letter_topic)

    def dead_letter(self, batch: Sequence[DeadLetter]) -> None:
        """Store the whole batch.

        Raises:
            StreamUnavailable: not all were acknowledged in time.
        """
        records = [_record(letter) for letter in batch]
        try:
            self._writer.write(records)
        except MessageTooLarge as refused:
            self._writer.write([_cut(records[n], refused.limit_bytes) for n in refused.indices])

    def close(self) -> None:
        """Leave."""
        self._writer.close()


def _record(letter: DeadLetter) -> Record:
    source = letter.delivered
    return Record(
        source.key,
        source.value,
        (
            ("source-partition", source.partition.encode()),
            ("source-offset", b"%d" % source.offset),
            ("reason", letter.reason.encode()[:4096]),
        ),
    )


def _cut(record: Record, limit_bytes: int) -> Record:
    kept = record.value[: max(0, limit_bytes - record.rest_bytes - 64)]
    missing = b"%d" % (len(record.value) - len(kept))
    return Record(record.key, kept, (*record.headers, ("truncated-bytes", missing)))
