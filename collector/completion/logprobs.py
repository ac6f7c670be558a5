"""Log-probabilities in OpenAI's two shapes, and llama.cpp's use of one under the other's name."""

from __future__ import annotations

from typing import Any

from collector.completion.model import TokenLogprob
from collector.completion.reading import Parts, logprob
from collector.json_text import TooMuch, clean, finite

MOST_TOKENS = 500_000
"""Log-probabilities that are kept of one choice; the longest answers have a quarter of it."""


def add_logprobs(parts: Parts, logprobs: object) -> None:
    """Chat's {content: [{token, logprob, …}]} or completions' {tokens, token_logprobs, …}.

    Raises:
        TooMuch: there are more than one answer may have.
    """
    if not isinstance(logprobs, dict):
        return
    content = logprobs.get("content")
    if isinstance(content, list):
        _check_room(parts, content)
        parts.logprobs.extend(_chat(entry) for entry in content if isinstance(entry, dict))
        return
    tokens = logprobs.get("tokens")
    if isinstance(tokens, list):
        _check_room(parts, tokens)
        parts.logprobs.extend(_completions(logprobs, tokens))


def _check_room(parts: Parts, more: list[object]) -> None:
    if len(parts.logprobs) + len(more) > MOST_TOKENS:
        raise TooMuch(f"more than {MOST_TOKENS} log-probabilities")


def _chat(entry: dict[str, Any]) -> TokenLogprob:
    rivals = entry.get("top_logprobs")
    top = tuple(
        (clean(str(rival.get("token"))), finite(rival.get("logprob")))
        for rival in (rivals if isinstance(rivals, list) else ())
        if isinstance(rival, dict)
    )
    return logprob(entry.get("token"), entry.get("logprob"), top)


def _completions(logprobs: dict[str, Any], tokens: list[object]) -> list[TokenLogprob]:
    values, rivals = logprobs.get("token_logprobs"), logprobs.get("top_logprobs")
    values = values if isinstance(values, list) else []
    rivals = rivals if isinstance(rivals, list) else []
    return [
        logprob(token, _at(values, at), _top(_at(rivals, at))) for at, token in enumerate(tokens)
    ]


def _at(values: list[Any], at: int) -> Any:
    return values[at] if at < len(values) else None


def _top(rivals: object) -> tuple[tuple[str, float | None], ...]:
    if not isinstance(rivals, dict):
        return ()
    return tuple((clean(token), finite(value)) for token, value in rivals.items())
