"""The stream between proxy and collector: one small interface, made for Kafka's partitions.

Embedded here (`embedded`); Kafka stands behind the same interface and the same test suite.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Partition = str


@dataclass(frozen=True, slots=True)
class Message:
    """What a producer appends: the key places it, the value is opaque."""

    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message as it came from the stream, with the place it came from."""

    partition: Partition
    offset: int
    key: bytes
    value: bytes
    damage: str = ""
    """Why the value is not what was appended: the stream's own storage is damaged there."""


class StreamFull(Exception):
    """The stream refuses more: a bound was reached. The caller drops and counts `log_full`."""


class StreamUnavailable(Exception):
    """A bad world: the stream cannot be reached now. Retry with backoff."""


class MessageTooLarge(Exception):
    """Some messages of a batch can never be stored; all the others are. Shrink, append those.

    `indices` says which, in the batch's order; a value of at most `limit_bytes` is always taken.
    """

    def __init__(self, indices: Sequence[int], limit_bytes: int) -> None:
        super().__init__(f"{len(indices)} messages are too large: {limit_bytes} bytes at most")
        self.indices, self.limit_bytes = tuple(indices), limit_bytes


class Producer(Protocol):
    """The writing end. Blocking: call it from a sender thread, never from the event loop."""

    def append(self, batch: Sequence[Message]) -> None:
        """Store the whole batch durably, or raise `StreamFull`, `StreamUnavailable` or
        `MessageTooLarge`; an empty batch is nothing.
        """

    def close(self) -> None:
        """Flush and release."""


class Consumer(Protocol):
    """The reading end: one thread polls, works, commits."""

    def poll(self, max_records: int, timeout: float) -> Sequence[Delivered]:
        """Up to `max_records`, waiting `timeout` seconds at most; empty when nothing is there."""

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Everything before `offsets[partition]` is done: a restart begins there."""

    def on_revoked(self, callback: Callable[[Collection[Partition]], None]) -> None:
        """`callback` runs before partitions are taken away; it flushes or clears the open batch."""

    def close(self) -> None:
        """Leave; nothing is committed that was not committed before."""
