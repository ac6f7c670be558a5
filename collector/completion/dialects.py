"""Which dialect a path speaks: one row a dialect, one module behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from collector.completion import (
    anthropic_messages,
    openai_chat,
    openai_completions,
    openai_embeddings,
    openai_responses,
)
from collector.completion.reading import Reading


@dataclass(frozen=True, slots=True)
class Dialect:
    """How to read one API's answers.

    `read_event` takes one streamed JSON object and says what it carried; `read_document` takes a
    whole answer and says whether it is one of this dialect; `count_usage` takes a usage object.
    """

    name: str
    path_end: str
    read_event: Callable[[Reading, dict[str, Any]], int]
    read_document: Callable[[Reading, dict[str, Any]], bool]
    done_ends: bool = False
    """Whether `[DONE]` is the terminal event."""
    usage_on_top: bool = False
    """Whether a `usage` key on any event or document counts."""


DIALECTS = (
    Dialect(
        "openai_chat",
        "/chat/completions",
        openai_chat.read_event,
        openai_chat.read_document,
        done_ends=True,
        usage_on_top=True,
    ),
    Dialect(
        "openai_completions",
        "/completions",
        openai_completions.read_event,
        openai_completions.read_document,
        done_ends=True,
        usage_on_top=True,
    ),
    Dialect(
        "openai_responses",
        "/responses",
        openai_responses.read_event,
        openai_responses.read_document,
    ),
    Dialect(
        "anthropic_messages",
        "/messages",
        anthropic_messages.read_event,
        anthropic_messages.read_document,
    ),
    Dialect(
        "openai_embeddings",
        "/embeddings",
        openai_embeddings.read_event,
        openai_embeddings.read_document,
        usage_on_top=True,
    ),
)


def dialect_of(path: str) -> Dialect | None:
    """The dialect that a request target speaks; None for every other path."""
    plain = path.partition("?")[0].partition("#")[0].rstrip("/")
    return next((dialect for dialect in DIALECTS if plain.endswith(dialect.path_end)), None)
