"""One text: what is found in it is written over, in its own bytes.

Of a long text windows are looked at, 64 KiB each with 4 KiB of the next. Strings within the text,
as in a tool call's arguments, are looked through as well, where they are spelled with escapes.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from shadow.redaction.parts import split
from shadow.redaction.rules import Rule, Rules
from shadow.redaction.spelling import Change, changed, read

SHORTEST: Final = 4
"""Characters; nothing shorter is looked into."""
_WINDOW_BYTES: Final = 64 * 1024
_OVERLAP_BYTES: Final = 4 * 1024
_DEEPEST: Final = 3
"""Strings within strings."""

Counts = Counter[str]


class TooLong(Exception):
    """A body takes more work than it may."""


class Strings:
    """See the module.

    Args:
        rules: what to look for, and what becomes of it.
        breathe: as `Redactor` has it.
    """

    def __init__(self, rules: Rules, breathe: Callable[[], None]) -> None:
        self._rules, self._breathe = rules, breathe
        self.until_s = math.inf
        """By this thread's time; `TooLong` is raised after it."""

    def become(
        self, raw: bytes, rule: Rule | None, counts: Counts, *, escaped: bool, depth: int = 0
    ) -> bytes:
        """What becomes of a string's bytes, or a plain text's; as many bytes."""
        if rule is not None:
            text = read(raw, escaped=escaped)
            counts[rule.name] += 1
            return changed(raw, [(0, len(text), rule.instead_of(text))], escaped=escaped)
        if len(raw) < SHORTEST:
            return raw
        if len(raw) <= _WINDOW_BYTES + _OVERLAP_BYTES:
            return self._window(raw, counts, depth, escaped=escaped)
        out = bytearray(raw)
        begin = 0
        while begin < len(raw):
            self._breathe()
            end = _cut(raw, min(begin + _WINDOW_BYTES + _OVERLAP_BYTES, len(raw)))
            piece = raw[begin:end]
            new = self._window(piece, counts, depth, escaped=escaped)
            if new != piece:  # an earlier window's changes stay
                out[begin:end] = over(piece, bytes(out[begin:end]), new)
            begin = end if end == len(raw) else _cut(raw, begin + _WINDOW_BYTES)
        return bytes(out)

    def _window(self, raw: bytes, counts: Counts, depth: int, *, escaped: bool) -> bytes:
        if time.thread_time() > self.until_s:
            raise TooLong
        text = read(raw, escaped=escaped)
        mine: Counts = Counter()
        changes = self._changes(text, mine)
        if "\\" in text and '"' in text and depth < _DEEPEST:
            inner: Counts = Counter()
            changes += self._inner(text, inner, depth)
            mine |= inner  # most of what is found within was found without
        counts.update(mine)
        return changed(raw, changes, escaped=escaped) if changes else raw

    def _changes(self, text: str, counts: Counts) -> list[Change]:
        changes: list[Change] = []
        for find, rule in self._rules.finds:
            for span in find(text):
                if time.thread_time() > self.until_s:
                    raise TooLong
                start, end = _beside_escapes(text, *span) if "\\" in text else span
                within = any(s <= start and end <= e for s, e, _ in changes)
                if start < end and not within:
                    counts[rule.name] += 1
                    changes.append((start, end, rule.instead_of(text[start:end])))
        return changes

    def _inner(self, text: str, counts: Counts, depth: int) -> list[Change]:
        """Strings within the text, as in a tool call's arguments, that are spelled with escapes."""
        parts = split(text.encode("utf-8", "surrogateescape"))
        changes: list[Change] = []
        at = 0
        for number, part in enumerate(parts):
            size = len(part.decode("utf-8", "surrogateescape"))
            if number % 2:
                at += 1
                if b"\\" in part:
                    new = self.become(part, None, counts, escaped=True, depth=depth + 1)
                    if new != part:
                        changes += _difference(part, new, at)
                at += size + 1
            else:
                at += size
        return changes

    def any_found(self, text: str) -> bool:
        """Whether anything is found in it."""
        return any(True for find, _ in self._rules.finds for _ in find(text))


def over(raw: bytes, below: bytes, above: bytes) -> bytes:
    """What was changed by `above`, and by `below` where it was not."""
    if raw in (above, below):
        return below if above == raw else above
    return bytes(b if c == a else c for a, b, c in zip(raw, below, above, strict=True))


def _cut(raw: bytes, at: int) -> int:
    """A place near `at` (before it, if not the end) that no escape and no character spans."""
    if at >= len(raw):
        return len(raw)
    for place in range(at, max(at - 64, 1), -1):
        if raw[place] & 0xC0 != 0x80 and b"\\" not in raw[place - 12 : place]:
            return place
    return at


def _beside_escapes(text: str, start: int, end: int) -> tuple[int, int]:
    """A find within JSON in a text does not begin inside of an escape, nor end there."""
    if _escapes(text, start) and text[start] in 'nrtbfu"/\\':
        start += 5 if text[start] == "u" else 1
    if end < len(text) and _escapes(text, end):
        end -= 1
    return start, end


def _escapes(text: str, at: int) -> bool:
    """Whether an odd number of backslashes stands before it."""
    begin = at
    while begin and text[begin - 1] == "\\":
        begin -= 1
    return (at - begin) % 2 == 1


def _difference(old: bytes, new: bytes, at: int) -> list[Change]:
    """From the first to the last character that differ, `at` being where they begin."""
    was, now = (raw.decode("utf-8", "surrogateescape") for raw in (old, new))
    if len(was) != len(now):
        return [(at, at + len(was), None)]  # blanks for what took several bytes
    changes: list[Change] = []
    begin = None
    for n, (a, b) in enumerate(zip(was, now, strict=True)):
        if a != b and begin is None:
            begin = n
        elif a == b and begin is not None:
            changes.append((at + begin, at + n, now[begin:n]))
            begin = None
    if begin is not None:
        changes.append((at + begin, at + len(was), now[begin:]))
    return changes
