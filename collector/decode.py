"""From a record of the stream to rows: pure, and the same rows for the same bytes, always."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collector.completion import Answer, Completion, read
from collector.measures import measure
from collector.rows import (
    Row,
    accounting_rows,
    body_row,
    exchange_row,
    worker_row,
)
from collector.tokenizer import CountTokens
from shadow.exchange import Accounting, Exchange, MalformedRecord, decode

NO_TOKENIZERS: Mapping[str, CountTokens] = {}

Rows = Mapping[str, Sequence[Row]]
"""Table → rows."""


def rows_of(
    value: bytes, capture: str, count_tokens: Mapping[str, CountTokens] = NO_TOKENIZERS
) -> Rows:
    """The rows that a record becomes. `capture`: full keeps raw bytes, text only those of answers
    that could not be read whole, measures keeps no body at all. `count_tokens`: the configured
    tokenizers, by arm.

    Raises:
        MalformedRecord: it is no record, or one that cannot be read.
    """
    record = decode(value)
    if isinstance(record, Accounting):
        return {"accounting": accounting_rows(record), "workers": [worker_row(record)]}
    try:
        return _exchange_rows(record, capture, count_tokens.get(record.arm))
    except MemoryError:
        raise
    except Exception as error:  # a mistake of ours in one record must stop no other
        raise MalformedRecord(f"decoder: {type(error).__name__}: {error}") from error


def completion_of(exchange: Exchange, count_tokens: CountTokens | None = None) -> Completion:
    """What one arm answered, read."""
    return read(
        Answer(
            path=exchange.path,
            status=exchange.status,
            headers=exchange.headers,
            body=exchange.body,
            marks=exchange.marks,
            transport=exchange.transport,
            error=exchange.error,
            gap_bytes=exchange.truncated_bytes,
            tail_bytes=exchange.tail_bytes,
            count_tokens=count_tokens,
        )
    )


def last_byte_ns_of(exchange: Exchange) -> int | None:
    """When the last byte that came had arrived, since the request was sent."""
    if exchange.marks:
        return exchange.marks[-1][0]
    if exchange.end_ns is None or exchange.sent_ns is None:
        return None
    return exchange.end_ns - exchange.sent_ns


def _exchange_rows(exchange: Exchange, capture: str, count_tokens: CountTokens | None) -> Rows:
    completion = completion_of(exchange, count_tokens)
    measures = measure(completion, last_byte_ns_of(exchange))
    rows = {"exchanges": [exchange_row(exchange, completion, measures)]}
    if capture != "measures":
        # what could not be read is kept as it came, so that a person can
        keep_raw = capture == "full" or bool(
            completion.unreadable_events + completion.damaged_events
        )
        rows["bodies"] = [body_row(exchange, completion, keep_raw=keep_raw)]
    return rows
