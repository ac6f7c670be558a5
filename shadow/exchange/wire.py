"""A record as the bytes of the stream, and back."""

from __future__ import annotations

from pydantic import TypeAdapter, ValidationError

from shadow.exchange.records import Accounting, Exchange, Record

_RECORD: TypeAdapter[Exchange | Accounting] = TypeAdapter(Record)


class MalformedRecord(ValueError):
    """A record that will fail the same way however often it is read."""


def encode(record: Exchange | Accounting) -> bytes:
    """The record's wire form: one JSON document, UTF-8, no line breaks."""
    return record.__pydantic_serializer__.to_json(record)


def decode(value: bytes) -> Exchange | Accounting:
    """Read a record from the stream.

    Raises:
        MalformedRecord: it is not JSON, not a record, or misses a required field.
    """
    try:
        return _RECORD.validate_json(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "record"
        raise MalformedRecord(f"{where}: {first['msg']}") from None
