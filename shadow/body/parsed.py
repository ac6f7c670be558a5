"""Which bodies are parsed as a whole, because that is cheaper than anything else."""

from __future__ import annotations

from typing import Any, Final

import orjson

SMALL_BYTES: Final = 16 * 1024
PARSED_BYTES: Final = 256 * 1024
PARSED_VALUES: Final = 8 * 1024
"""Beyond `SMALL_BYTES` with no more commas and brackets than this: a value costs 0.1 µs to parse,
text 0.3 ms a MiB. So neither takes a millisecond."""


def soon_parsed(text: bytes | bytearray) -> bool:
    """Whether to parse this JSON text takes less than a millisecond, whatever it holds."""
    size = len(text)
    if size <= SMALL_BYTES:
        return True
    if size > PARSED_BYTES:
        return False
    return text.count(b",") + text.count(b"[") + text.count(b"{") <= PARSED_VALUES


def tree(text: bytes | bytearray) -> dict[str, Any] | None:
    """The object that it is; None where it is none, or takes long to parse."""
    if not soon_parsed(text):
        return None
    try:
        found = orjson.loads(text)
    except ValueError:
        return None
    return found if found.__class__ is dict else None
