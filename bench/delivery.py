"""What really reached the stream: a proxy that drops everything would be fast. Pure but for `read`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from shadow.exchange import Accounting, decode
from shadow.stream.embedded import EmbeddedConsumer

Span = tuple[int, int]
"""From and to, UTC in nanoseconds."""

_EXCHANGE = b'"record":"exchange"'
_ARM = re.compile(rb'"arm":"([^"]*)"')
_ARRIVED = re.compile(rb'"arrived_at":(\d+)')
_BATCH = 2000


@dataclass(frozen=True, slots=True)
class Delivery:
    """Candidate's exchanges in the stream, one number a span, and the last word of the accounting."""

    exchanges: Mapping[str, int]
    stream_bytes: int
    counts: Mapping[str, int]
    """counter, or counter(reason): what the candidate's arm had counted at the end."""


def read(folder: Path) -> Iterable[bytes]:
    """Every record's value in an embedded log that nobody writes any more."""
    consumer = EmbeddedConsumer(folder, group="bench")
    try:
        while batch := consumer.poll(_BATCH, 0.0):
            yield from (record.value for record in batch)
    finally:
        consumer.close()


def delivered(values: Iterable[bytes], arm: str, spans: Mapping[str, Span]) -> Delivery:
    """Count one arm's exchanges by the span in which their request arrived."""
    exchanges = dict.fromkeys(spans, 0)
    counts: dict[str, int] = {}
    stream_bytes = 0
    for value in values:
        stream_bytes += len(value)
        if _EXCHANGE not in value[:200]:
            counts = _counts(value, arm) or counts
        elif (name := _ARM.search(value)) and name[1].decode() == arm:
            moment = _ARRIVED.search(value)
            assert moment
            for span in _spans_of(int(moment[1]), spans):
                exchanges[span] += 1
    return Delivery(exchanges, stream_bytes, counts)


def _spans_of(moment: int, spans: Mapping[str, Span]) -> list[str]:
    return [name for name, (begin, end) in spans.items() if begin <= moment <= end]


def _counts(value: bytes, arm: str) -> dict[str, int]:
    record = decode(value)
    assert isinstance(record, Accounting)
    return {
        f"{count.counter}({count.reason})" if count.reason else count.counter: count.value
        for count in record.counts
        if count.arm == arm and count.value
    }


def unaccounted(counts: Mapping[str, int]) -> int:
    """Sampled requests that no counter explains; 0 where the accounting holds."""
    explained = sum(
        value
        for name, value in counts.items()
        if name.partition("(")[0] in {"captured", "dropped", "pending", "lost"}
    )
    return counts.get("sampled", 0) - explained
