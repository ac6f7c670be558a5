"""Read and write JSON that strangers produced: fast where it is well-formed, tolerant where not."""

from __future__ import annotations

import json
import math
from typing import Any

import orjson


class Unreadable(ValueError):
    """The bytes are no JSON document."""


quick_loads = orjson.loads
"""`loads` without tolerance: raises ValueError where `loads` would look again."""


def loads(data: bytes) -> Any:
    """The document in `data`, NaN, Infinity, lone surrogates and stray bytes tolerated.

    Raises:
        Unreadable: it is no JSON, or nests deeper than can be followed.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error)) from None


def said(document: object, *, sort_keys: bool = False) -> str:
    """What was read, as compact JSON text again; "" where it nests too deeply to be said."""
    try:
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)
    except (ValueError, RecursionError):
        return ""
    return clean(text)


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
