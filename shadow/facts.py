"""What is known of a request without its text. Runs in the sender thread; never fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from shadow.body.parsed import soon_parsed

PARSED_BYTES: Final = 2**20
"""A larger body is not parsed: orjson keeps the interpreter's lock, 0.6 ms a MiB of messages."""
SMALL_BYTES: Final = 64 * 1024
PARSED_VALUES: Final = 32 * 1024
"""Nor is one beyond `SMALL_BYTES` with more commas and brackets than this: values cost 0.1 µs each,
and half a MiB of `[],[],…` took 16 ms."""
_TEXT: Final = 256


def request_facts(
    body: bytes | bytearray, conversation: Callable[[dict[str, Any]], str | None] | None = None
) -> dict[str, object]:
    """RequestFacts' fields: model, streamed, max_tokens, temperature, bytes, turns and tools.

    What is not there is None. Not the model itself: validating it took five times this.

    Args:
        body: the request's.
        conversation: finds its hash in a body that is soon parsed.
    """
    tree = _tree(body)
    if tree is None:
        return {"bytes": len(body)}
    return {
        "model": _text(tree.get("model")),
        "streamed": _flag(tree.get("stream", False)),
        "max_tokens": _max_tokens(tree),
        "temperature": _number(tree.get("temperature")),
        "bytes": len(body),
        "turns": _count(tree.get("messages", tree.get("input"))),
        "tools": _count(tree.get("tools")),
        "conversation": conversation(tree) if conversation and soon_parsed(body) else None,
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
