"""Usage under common names, and the count of output tokens with its source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collector.completion.model import Choice, Tokens, Usage
from collector.tokenizer import CountTokens

MOST_COUNTED = 8 * 1024 * 1024
"""Characters that a tokenizer is given at once: a token takes it a hundred bytes."""
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
    usage: Usage | None,
    choices: tuple[Choice, ...],
    token_events: int,
    count: CountTokens | None,
    *,
    whole: bool,
) -> Tokens:
    """Output tokens by the best source there is; a part is not counted as the whole.

    `count`: the arm's configured tokenizer, where there is one.
    """
    if usage is not None and usage.completion_tokens:
        return Tokens(usage.completion_tokens, "usage")
    if whole:
        for source, tokens in _counts(choices, token_events, count):
            if tokens:
                return Tokens(tokens, source)
    said_none = whole and usage is not None and usage.completion_tokens == 0
    return Tokens(0, "usage") if said_none else Tokens()


def _counts(
    choices: tuple[Choice, ...], token_events: int, count: CountTokens | None
) -> Iterator[tuple[str, int]]:
    """Counts by source, the best first; each is reckoned when it is asked for."""
    yield "token_ids", sum(len(choice.token_ids) for choice in choices)
    yield "logprobs", sum(len(choice.logprobs) for choice in choices)
    if count is not None and sum(map(len, _texts(choices))) <= MOST_COUNTED:
        yield "tokenizer", sum(map(count, _texts(choices)))
    yield "events", token_events


def _texts(choices: tuple[Choice, ...]) -> Iterator[str]:
    """Everything that the model wrote."""
    for choice in choices:
        calls = (text for call in choice.tool_calls for text in (call.name, call.arguments))
        yield from filter(None, (choice.reasoning, choice.text, choice.refusal, *calls))


def _either(wire: dict[str, Any], name: str, details: str) -> int | None:
    nested = wire.get(details)
    inner = _count(nested.get(name)) if isinstance(nested, dict) else None
    return _count(wire.get(name)) if inner is None else inner


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= _MOST else None
