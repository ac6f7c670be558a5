"""One pattern in one text. `regex` lets go of the lock in long texts, which `re` does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import AnyStr, Final

import regex

Span = tuple[int, int]
"""(start, end) in characters. An empty one found nothing: whoever reads it may breathe, or stop a
search of candidates that takes too long.
"""

Find = Callable[[str], Iterator[Span]]

LONG_CHARACTERS: Final = 8192
"""From here on a search lets go of the lock; below, the hand-over costs more than the search."""
NEAR_CHARACTERS: Final = 2048
"""Nor does it after a match so near: who lets go of the lock and takes it back at once, again and
again, starves a thread that waits for it, for 80 ms: each time that one is woken too late."""

_AHEAD: Final = 1024

DIGIT: Final = regex.compile(r"\d")
DIGITS: Final = regex.compile(r"\d+")
_MANY_DIGITS = regex.compile(r"\d(?:\D{0,3}\d){6}")


def found(pattern: regex.Pattern[str], text: str) -> Iterator[Span]:
    """Where one of our own patterns matches, if only once."""
    return _spans(matches(pattern, text))


def found_within(pattern: regex.Pattern[str], text: str, timeout: float) -> Iterator[Span]:
    """Where anybody's pattern matches; it never keeps the lock.

    Raises:
        TimeoutError: it took longer than `timeout` seconds.
    """
    return _spans(pattern.finditer(text, concurrent=_is_long(text), timeout=timeout))


def _spans(all_matches: Iterable[regex.Match[str]]) -> Iterator[Span]:
    for match in all_matches:
        if match.end() > match.start():
            yield match.span()


def matches(pattern: regex.Pattern[AnyStr], text: AnyStr) -> Iterator[regex.Match[AnyStr]]:
    """All of them, of a pattern that looks no further than `_AHEAD` beyond its match."""
    at, size = 0, len(text)
    near = size <= LONG_CHARACTERS
    while at <= size:
        match, stop = None, at + LONG_CHARACTERS
        if near:
            match = pattern.search(text, at, stop, concurrent=False)
            if stop < size and match is not None and match.end() > stop - _AHEAD:
                match = None  # what stands behind `stop` may say otherwise
        if match is None and (stop < size or not near):
            match = pattern.search(text, at, concurrent=True)
        if match is None:
            return
        yield match
        near = size <= LONG_CHARACTERS or match.end() - at < NEAR_CHARACTERS
        at = max(match.end(), match.start() + 1)


def groups(text: str, start: int, end: int) -> list[Span]:
    """The groups of digits between two places."""
    return [match.span() for match in DIGITS.finditer(text, start, end, concurrent=False)]


def has_many_digits(text: str) -> bool:
    """Whether seven stand close together, as in every card's and every telephone's number."""
    return _MANY_DIGITS.search(text, concurrent=_is_long(text)) is not None


def _is_long(text: str) -> bool:
    return len(text) > LONG_CHARACTERS
