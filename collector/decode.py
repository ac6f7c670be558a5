"""From a record of the stream to rows: pure, and the same rows for the same bytes, always."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collector.completion import Answer, Completion, Fault, read
from collector.completion.dialects import dialect_of
from collector.json_text import clean
from collector.measures import Measures, measure
from collector.names import misfigured, misnamed
from collector.rows import (
    READ,
    Row,
    accounting_rows,
    body_row,
    exchange_row,
    worker_row,
)
from collector.tokenizer import CountTokens
from shadow.exchange import Accounting, Exchange, MalformedRecord, decode

_MOST_WHY = 500  # characters

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
        MalformedRecord: it is no record, or one with names or figures that no proxy gives.
            Whatever its answer holds, a record has its rows.
    """
    record = _decoded(value)
    if said := misnamed(record):
        raise MalformedRecord(f"record: {said}")
    try:
        return _rows(record, capture, count_tokens)
    except MalformedRecord:
        raise
    except Exception as error:  # noqa: BLE001 - a time of 400 digits, and what nobody thought of
        raise MalformedRecord(f"record: {clean(str(error))[:_MOST_WHY]}") from None


def _rows(
    record: Accounting | Exchange, capture: str, count_tokens: Mapping[str, CountTokens]
) -> Rows:
    if isinstance(record, Accounting):
        return {"accounting": accounting_rows(record), "workers": [worker_row(record)]}
    if record.measures is not None:
        return {"exchanges": [measured_row(record)]}
    return _read_rows(record, capture, count_tokens.get(record.arm))


def is_unreadable(rows: Rows) -> bool:
    """Whether they are those of an answer of which not all could be read as it came."""
    return any(
        row["unreadable_events"] + row["damaged_events"] for row in rows.get("exchanges", ())
    )


def _decoded(value: bytes) -> Accounting | Exchange:
    try:
        return decode(value)
    except (MemoryError, RecursionError) as error:
        raise MalformedRecord(f"decoder: {type(error).__name__}") from None


def measured_row(exchange: Exchange) -> Row:
    """The row of `exchanges` of a record that holds figures; see `measured`."""
    told = {name: value for name, value in (exchange.measures or {}).items() if name in READ}
    if said := misfigured(told):
        raise MalformedRecord(f"record: measures.{said}")
    return exchange_row(exchange, *read_answer(exchange, None)) | told


def read_answer(
    exchange: Exchange, count_tokens: CountTokens | None
) -> tuple[Completion, Measures]:
    """What one arm answered, and its figures; never an exception.

    An answer that our reader fails at is one that we did not read: not a dead letter.
    """
    try:
        completion = completion_of(exchange, count_tokens)
        return completion, measure(completion, last_byte_ns_of(exchange))
    except Exception as error:  # noqa: BLE001 - a mistake of ours, or memory, in one of them
        why = clean(f"{type(error).__name__}: {error}")
    # only now what the failed reading held is let go of
    completion = _unread(exchange, why)
    return completion, measure(completion, last_byte_ns_of(exchange))


def _read_rows(exchange: Exchange, capture: str, count_tokens: CountTokens | None) -> Rows:
    completion, measures = read_answer(exchange, count_tokens)
    try:
        return _exchange_rows(exchange, completion, measures, capture)
    except Exception as error:  # noqa: BLE001 - as above
        why = clean(f"{type(error).__name__}: {error}")
    completion = _unread(exchange, why)
    measures = measure(completion, last_byte_ns_of(exchange))
    return _exchange_rows(exchange, completion, measures, capture)


def _unread(exchange: Exchange, why: str) -> Completion:
    dialect = dialect_of(exchange.path)
    return Completion(
        dialect=dialect.name if dialect else "",
        streamed=False,
        status=exchange.status,
        transport=exchange.transport,
        outcome="truncated_capture",
        fault=Fault("decoder", why[:_MOST_WHY]),
        unreadable_events=1,  # so that its bytes are kept
    )


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


def _exchange_rows(
    exchange: Exchange, completion: Completion, measures: Measures, capture: str
) -> Rows:
    rows = {"exchanges": [exchange_row(exchange, completion, measures)]}
    if capture != "measures":
        # what could not be read is kept as it came, so that a person can
        keep_raw = capture == "full" or bool(
            completion.unreadable_events + completion.damaged_events
        )
        rows["bodies"] = [body_row(exchange, completion, keep_raw=keep_raw)]
    return rows
