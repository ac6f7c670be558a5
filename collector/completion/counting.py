"""Usage under common names, and the count of output tokens with its source."""

from __future__ import annotations

from typing import Any

from collector.completion.model import Choice, Tokens, Usage

_MOST = 2**32 - 1  # what a column holds; an engine that says more says nonsense


def usage_of(wire: dict[str, Any] | None) -> Usage | None:
    """The engine's usage object, read; null where there is none or nothing in it is a count."""
    if wire is None:
        return None
    usage = Usage(
        prompt_tokens=_count(wire.get("prompt_tokens")),
        completion_tokens=_count(wire.get("completion_tokens")),
        total_tokens=_count(wire.get("total_tokens")),
        cached_tokens=_either(wire, "cached_tokens", "prompt_tokens_details"),
        reasoning_tokens=_either(wire, "reasoning_tokens", "completion_tokens_details"),
    )
    return None if usage == Usage() else usage


def tokens_of(
    usage: Usage | None, choices: tuple[Choice, ...], token_events: int, *, whole: bool
) -> Tokens:
    """Output tokens by the best source there is; a part is not counted as the whole."""
    if usage is not None and usage.completion_tokens:
        return Tokens(usage.completion_tokens, "usage")
    if not whole:
        return Tokens()
    if ids := sum(len(choice.token_ids) for choice in choices):
        return Tokens(ids, "token_ids")
    if logprobs := sum(len(choice.logprobs) for choice in choices):
        return Tokens(logprobs, "logprobs")
    if token_events:
        return Tokens(token_events, "events")
    return Tokens(0, "usage") if usage is not None and usage.completion_tokens == 0 else Tokens()


def _either(wire: dict[str, Any], name: str, details: str) -> int | None:
    nested = wire.get(details)
    inner = _count(nested.get(name)) if isinstance(nested, dict) else None
    return _count(wire.get(name)) if inner is None else inner


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= _MOST else None
