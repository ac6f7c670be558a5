"""What is known of a request without its text. Never fails; a body that was not parsed anyway is
parsed in the sender thread.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

PARSED_BYTES: Final = 2**20
"""A larger body is not parsed: orjson keeps the interpreter's lock, 0.6 ms a MiB of messages."""
SMALL_BYTES: Final = 64 * 1024
PARSED_VALUES: Final = 32 * 1024
"""Nor is one beyond `SMALL_BYTES` with more commas and brackets than this: values cost 0.1 µs each,
and half a MiB of `[],[],…` took 16 ms."""
_TEXT: Final = 256


def request_facts(body: bytes | bytearray) -> dict[str, object]:
    """RequestFacts' fields: model, streamed, max_tokens, temperature, bytes, turns and tools.

    What is not there is None. Not the model itself: validating it took five times this.
    """
    tree = _tree(body)
    return {"bytes": len(body)} if tree is None else facts_of(tree, len(body))


def facts_of(tree: dict[str, Any], size: int) -> dict[str, object]:
    """The same of a parsed body of `size` bytes."""
    return {
        "model": _text(tree.get("model")),
        "streamed": _flag(tree.get("stream", False)),
        "max_tokens": _max_tokens(tree),
        "temperature": _number(tree.get("temperature")),
        "bytes": size,
        "turns": _count(tree.get("messages", tree.get("input"))),
        "tools": _count(tree.get("tools")),
        "conversation": None,
    }


def _tree(body: bytes | bytearray) -> dict[str, Any] | None:
    if len(body) > SMALL_BYTES and not _soon_parsed(body):
        return None
    try:
        tree = orjson.loads(body)
    except ValueError:
        return None
    return tree if isinstance(tree, dict) else None


def _soon_parsed(body: bytes | bytearray) -> bool:
    if len(body) > PARSED_BYTES:
        return False
    return body.count(b",") + body.count(b"[") + body.count(b"{") <= PARSED_VALUES


def _max_tokens(tree: dict[str, Any]) -> int | None:
    for key in ("max_completion_tokens", "max_output_tokens", "max_tokens"):
        value = tree.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**62:
            return value
    return None


def _text(value: object) -> str | None:
    return value[:_TEXT] if isinstance(value, str) else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _number(value: object) -> float | None:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if plain else None  # type: ignore[arg-type]


def _count(value: object) -> int | None:
    return len(value) if isinstance(value, list) else None
