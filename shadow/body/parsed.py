"""Which bodies are parsed as a whole, because that is cheaper than anything else."""

from __future__ import annotations

from typing import Any, Final

import orjson

SMALL_BYTES: Final = 16 * 1024
MEDIUM_BYTES: Final = 64 * 1024
PARSED_BYTES: Final = 256 * 1024
"""A larger text is not parsed on the event loop: 0.3 ms a MiB of messages, as fast as it gets."""
PARSED_VALUES: Final = 8 * 1024
"""Nor is one beyond `SMALL_BYTES` with more brackets than this (each costs 0.1 µs), or beyond
`MEDIUM_BYTES` with more commas."""


def soon_parsed(text: bytes | bytearray) -> bool:
    """Whether to parse this JSON text takes less than a millisecond, whatever it holds."""
    size = len(text)
    if size <= SMALL_BYTES:
        return True
    if size > PARSED_BYTES or not (_few(text, b"[") and _few(text, b"{")):
        return False
    return size <= MEDIUM_BYTES or _few(text, b",")


def _few(text: bytes | bytearray, mark: bytes) -> bool:
    """At most `PARSED_VALUES` of a byte; `count` takes ten times as long."""
    return len(text) - len(text.replace(mark, b"", PARSED_VALUES + 1)) <= PARSED_VALUES


def tree(text: bytes | bytearray) -> dict[str, Any] | None:
    """The object that it is; None where it is none, or takes long to parse."""
    if not soon_parsed(text):
        return None
    try:
        found = orjson.loads(text)
    except ValueError:
        return None
    return found if found.__class__ is dict else None
