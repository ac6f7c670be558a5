"""Exchange v1 straight to its wire form: no model stands between a capture and its bytes.

Building and serialising the pydantic model took 20 µs a record, this takes a third. It is held to
the contract by a test: what is written here decodes to the exchange that it was written from.

No call keeps the interpreter's lock for long: what is large is written in pieces, each a call of
about 0.3 ms, and joined by one that lets go of the lock.
"""

from __future__ import annotations

import binascii
import zlib
from typing import TYPE_CHECKING, Any, Final, NotRequired, TypedDict

import orjson

from shadow.exchange import Exchange, deflated

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence
    from typing import Literal

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
    marks: NotRequired[Sequence[tuple[int, int]]]
    method: str
    path: str
    status: int | None
    headers: Headers
    request_headers: Headers
    request: NotRequired[str | None]
    """By `deflated`, as `body`. These three may be `Large` instead."""
    request_facts: dict[str, object]
    request_changes: Sequence[str]
    body: NotRequired[str]
    captured_bytes: int
    truncated_bytes: int
    tail_bytes: int
    in_flight: int
    weight: float
    mirroring: str
    subject: str | None
    redactions: NotRequired[dict[str, int]]
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


Large = list[bytes]
"""Pieces of JSON that are one field's value."""

SMALL_BYTES: Final = 256 * 1024
SMALL_MARKS: Final = 8192


def written(fixed: bytes, moving: Moving, large: dict[str, Large] | None = None) -> bytes:
    """The record's wire form; `large` has the fields that `moving` leaves out.

    Raises:
        orjson.JSONEncodeError: a field is no JSON, a lone surrogate for one.
    """
    if not large:
        return fixed + orjson.dumps(moving)[1:]
    parts = [fixed, orjson.dumps(moving)[1:-1]]
    for name, pieces in large.items():
        parts += [b',"', name.encode(), b'":', *pieces]
    return b"".join([*parts, b"}"])


def put_body(
    moving: Moving,
    large: dict[str, Large],
    name: Literal["request", "body"],
    body: bytes | bytearray,
) -> None:
    """A body as its field, deflated: in one go if it is small."""
    if len(body) <= SMALL_BYTES:
        moving[name] = deflated(body)
    else:
        large[name] = _deflated_in_pieces(body)


def put_marks(
    moving: Moving, large: dict[str, Large], base: int, times: array[int], ends: array[int]
) -> None:
    """The marks, counted from `base`: as a list if they are few."""
    if len(times) <= SMALL_MARKS:
        moving["marks"] = [(at - base, end) for at, end in zip(times, ends, strict=True)]
        return
    pieces = []
    for n in range(0, len(times), SMALL_MARKS):
        some = zip(times[n : n + SMALL_MARKS], ends[n : n + SMALL_MARKS], strict=True)
        pieces += [b",", orjson.dumps([(at - base, end) for at, end in some])[1:-1]]
    large["marks"] = [b"[", *pieces[1:], b"]"]


def _deflated_in_pieces(body: bytes | bytearray) -> Large:
    """What `deflated` says, as a JSON string; deflate lets go of the lock, base64 does not."""
    deflater = zlib.compressobj(1)
    pieces, left = [b'"'], b""
    with memoryview(body) as whole:
        for at in range(0, len(whole), SMALL_BYTES):
            left += deflater.compress(whole[at : at + SMALL_BYTES])
            full = len(left) - len(left) % 3
            pieces.append(binascii.b2a_base64(left[:full], newline=False))
            left = left[full:]
    pieces += [binascii.b2a_base64(left + deflater.flush(), newline=False), b'"']
    return pieces
