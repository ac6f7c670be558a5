"""Read and write JSON that strangers produced: fast where it is well-formed, tolerant where not."""

from __future__ import annotations

import json
import math
from typing import Any

import orjson

MOST_BYTES = 16 * 1024 * 1024
MOST_OBJECTS = 1_000_000
MOST_VALUES = 2_000_000
"""What one document may have before it is read: a parsed object takes a hundred times its text.
Real answers stay below a tenth of each. Braces and commas within texts count too."""
_SMALL_BYTES = 64 * 1024  # so little is not worth counting


class Unreadable(ValueError):
    """The bytes are no JSON document."""


class TooMuch(Unreadable):
    """The document holds more than is read of one record; one line says what."""


quick_loads = orjson.loads
"""`loads` without tolerance: raises ValueError where `loads` would look again."""


def loads(data: bytes) -> Any:
    """The document in `data`, NaN, Infinity, lone surrogates and stray bytes tolerated.

    Raises:
        TooMuch: it is larger than a document may be.
        Unreadable: it is no JSON, or nests deeper than can be followed.
    """
    if len(data) > _SMALL_BYTES:
        _check_size(data)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error)) from None


def _check_size(data: bytes) -> None:
    if len(data) > MOST_BYTES:
        raise TooMuch(f"a document of more than {MOST_BYTES} bytes")
    if data.count(b"{") + data.count(b"[") > MOST_OBJECTS:
        raise TooMuch(f"a document of more than {MOST_OBJECTS} objects")
    if data.count(b",") > MOST_VALUES:
        raise TooMuch(f"a document of more than {MOST_VALUES} values")


def said(document: object, *, sort_keys: bool = False) -> str:
    """What was read, as compact JSON text again; "" where it nests too deeply to be said."""
    try:
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)
    except (ValueError, RecursionError):
        return ""
    return clean(text)


def is_text(data: bytes) -> bool:
    """Whether the bytes are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def clean(text: str) -> str:
    """`text` as valid Unicode: surrogate pairs that came apart are joined, lone ones replaced."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def finite(value: object) -> float | None:
    """A finite float, or null: -inf, NaN and words are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
