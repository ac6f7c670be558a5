"""Exchange v1 straight to its wire form: no model stands between a capture and its bytes.

Building and serialising the pydantic model took 20 µs a record, this takes a third. It is held to
the contract by a test: what is written here decodes to the exchange that it was written from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypedDict

import orjson

from shadow.exchange import Exchange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shadow.exchange import Headers


class Moving(TypedDict):
    """What differs from one record of an arm to the next; see `Exchange`."""

    pair_id: str
    sequence: int
    arrived_at: int
    started_at: int
    connect_ns: int | None
    sent_ns: int | None
    first_byte_ns: int | None
    end_ns: int | None
    client_wait_ns: int
    marks: Sequence[tuple[int, int]]
    method: str
    path: str
    status: int | None
    headers: Headers
    request_headers: Headers
    request: str | None
    """By `deflated`, as `body`."""
    request_facts: dict[str, object]
    request_changes: list[str]
    body: str
    captured_bytes: int
    truncated_bytes: int
    tail_bytes: int
    in_flight: int
    subject: str | None
    transport: str
    error: str | None


_MOVING: Final = frozenset(Moving.__annotations__)


def fixed_part(**fields: object) -> bytes:
    """The beginning of an arm's records: these fields, and the defaults of all that never move."""
    known: dict[str, Any] = {
        name: field.default
        for name, field in Exchange.model_fields.items()
        if name not in _MOVING and not field.is_required()
    }
    return orjson.dumps(known | fields)[:-1] + b","


def written(fixed: bytes, moving: Moving) -> bytes:
    """The record's wire form.

    Raises:
        orjson.JSONEncodeError: a field is no JSON, a lone surrogate for one.
    """
    return fixed + orjson.dumps(moving)[1:]
