"""One pattern in one text. `regex` lets go of the lock in long texts, which `re` does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import regex

Span = tuple[int, int]
"""(start, end) in characters. An empty one found nothing: whoever reads it may breathe, or stop a
search of candidates that takes too long.
"""

Find = Callable[[str], Iterator[Span]]

LONG_CHARACTERS: Final = 8192
"""From here on a search lets go of the lock; below, the hand-over costs more than the search."""

DIGIT: Final = regex.compile(r"\d")
DIGITS: Final = regex.compile(r"\d+")
_MANY_DIGITS = regex.compile(r"\d(?:\D{0,3}\d){6}")


def found(pattern: regex.Pattern[str], text: str, timeout: float | None = None) -> Iterator[Span]:
    """Where the pattern matches, if only once.

    Raises:
        TimeoutError: it took longer than `timeout` seconds.
    """
    for match in pattern.finditer(text, concurrent=_is_long(text), timeout=timeout):
        if match.end() > match.start():
            yield match.span()


def groups(text: str, start: int, end: int) -> list[Span]:
    """The groups of digits between two places."""
    return [match.span() for match in DIGITS.finditer(text, start, end)]


def has_many_digits(text: str) -> bool:
    """Whether seven stand close together, as in every card's and every telephone's number."""
    return _MANY_DIGITS.search(text, concurrent=_is_long(text)) is not None


def _is_long(text: str) -> bool:
    return len(text) > LONG_CHARACTERS
