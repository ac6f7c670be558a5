"""Records into one topic: all acknowledged by every replica in sync, or an error within a bound.

Rules:

1. kafka-python gives an idempotent producer up for good when the broker finds one record too large
   (its state is fatal, the batches beside it are failed). So sizes are judged here, before: by the
   topic's limit, against the record compressed as it will be.
2. After any failure the producer is thrown away with what it still holds; the caller appends
   again. Retries within a producer are free of duplicates, an append again may double what had
   been stored unseen: readers are idempotent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from kafka import KafkaProducer
from kafka.codec import gzip_encode, lz4_encode, zstd_encode
from kafka.errors import KafkaError, MessageSizeTooLargeError
from kafka.producer.future import FutureRecordMetadata

from shadow.stream import MessageTooLarge, StreamUnavailable
from shadow.stream.kafka.connect import explained, opened
from shadow.stream.kafka.settings import Compression, KafkaSettings
from shadow.stream.kafka.topics import ensure_topic

BATCH_BYTES = 256 * 1024
MAX_REQUEST_BYTES = 64 * 2**20
"""What a record may have before it is compressed; a broker takes requests up to 100 MiB."""
OVERHEAD_BYTES = 256
"""A batch of one record is at most this much larger than its parts."""
CLOSE_SECONDS = 5.0
_ENCODE: Mapping[Compression, Callable[[bytes], bytes]] = {
    "zstd": zstd_encode,
    "lz4": lz4_encode,
    "gzip": gzip_encode,
    "none": bytes,
}


@dataclass(frozen=True, slots=True)
class Record:
    """What goes to a topic; the key chooses the partition."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()

    @property
    def rest_bytes(self) -> int:
        """Everything but the value."""
        fields = sum(len(name) + len(value) + 10 for name, value in self.headers)
        return len(self.key) + fields + OVERHEAD_BYTES


def too_large(record: Record, limit_bytes: int, compression: Compression) -> bool:
    """Whether a topic that takes batches of `limit_bytes` refuses the record."""
    size_bytes = len(record.value) + record.rest_bytes
    if size_bytes <= limit_bytes:
        return False
    if size_bytes > MAX_REQUEST_BYTES:
        return True
    return len(_ENCODE[compression](record.value)) + record.rest_bytes > limit_bytes


class TopicWriter:
    """The writing end of one topic. It connects at the first write, and again after a failure."""

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        self._settings, self._topic = settings, topic
        self._producer: KafkaProducer | None = None
        self._limit_bytes = 0

    def write(self, records: Sequence[Record]) -> None:
        """Store all. Blocks up to `connect_timeout` and `append_timeout`.

        Raises:
            StreamUnavailable: not all were acknowledged in time; none, some or all are stored.
            MessageTooLarge: some can never be stored; all the others are.
        """
        left = dict(enumerate(records))
        large: list[int] = []
        while left:
            producer = self._connected()
            found = [n for n, record in left.items() if self._too_large(record)]
            large += found
            left = {n: record for n, record in left.items() if n not in found}
            left = self._send(producer, left)
        if large:
            raise MessageTooLarge(sorted(large), self._limit_bytes - 4 * OVERHEAD_BYTES)

    def close(self) -> None:
        """Let the connection go; nothing is pending between writes."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close(timeout=CLOSE_SECONDS)

    def _too_large(self, record: Record) -> bool:
        return too_large(record, self._limit_bytes, self._settings.compression)

    def _connected(self) -> KafkaProducer:
        if self._producer is None:
            self._limit_bytes = ensure_topic(self._settings, self._topic)
            self._producer, _ = opened(self._settings, KafkaProducer, **self._options())
        return self._producer

    def _options(self) -> dict[str, object]:
        compression = self._settings.compression
        return {
            "acks": "all",
            "enable_idempotence": True,
            "compression_type": None if compression == "none" else compression,
            "batch_size": max(1, min(BATCH_BYTES, self._limit_bytes // 2)),
            "linger_ms": 2,
            "max_request_size": MAX_REQUEST_BYTES + OVERHEAD_BYTES,
            "max_block_ms": int(self._settings.connect_timeout * 1000),
            "delivery_timeout_ms": int(self._settings.append_timeout * 1000),
            "request_timeout_ms": int(min(10.0, self._settings.append_timeout / 2) * 1000),
            "allow_auto_create_topics": False,
            "metrics_enabled": False,
        }

    def _send(self, producer: KafkaProducer, records: Mapping[int, Record]) -> dict[int, Record]:
        """Send all and wait; what must be sent again because the topic's limit was lowered."""
        deadline = time.monotonic() + self._settings.append_timeout + 1.0
        failed: dict[int, KafkaError] = {}
        try:
            sent = {n: self._start(producer, record) for n, record in records.items()}
            for n, future in sent.items():
                try:
                    future.get(timeout=max(0.0, deadline - time.monotonic()))
                except KafkaError as error:
                    failed[n] = error
        except KafkaError as error:
            failed[-1] = error
        if not failed:
            return {}
        self._discard(producer)
        if any(isinstance(error, MessageSizeTooLargeError) for error in failed.values()):
            return {n: record for n, record in records.items() if n in failed}
        first = next(iter(failed.values()))
        raise StreamUnavailable(
            f"{self._settings.address}: topic {self._topic}: not stored: {explained(first)}"
        ) from first

    def _start(self, producer: KafkaProducer, record: Record) -> FutureRecordMetadata:
        return producer.send(
            self._topic, key=record.key, value=record.value, headers=list(record.headers)
        )

    def _discard(self, producer: KafkaProducer) -> None:
        """End the producer without sending what it holds, or it would come after the retry."""
        self._producer = None
        producer._sender.force_close()  # noqa: SLF001 close() alone waits for the broker to take it
        with suppress(KafkaError):
            producer.close(timeout=CLOSE_SECONDS)
