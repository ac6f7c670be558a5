"""One text: what is found in it is written over, in its own bytes.

Of a long text windows are looked at, 64 KiB each with 4 KiB of the next. Strings within the text,
as in a tool call's arguments, are looked through as well, where they are spelled with escapes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import Final

from shadow.redaction.breath import Pace, copied
from shadow.redaction.parts import split
from shadow.redaction.rules import Rule, Rules
from shadow.redaction.spelling import Change, changed, cut, read

SHORTEST: Final = 4
"""Characters; nothing shorter is looked into."""
_WINDOW_BYTES: Final = 64 * 1024
_OVERLAP_BYTES: Final = 4 * 1024
_STEP_BYTES: Final = 1024
_DEEPEST: Final = 3
"""Strings within strings."""

Counts = Counter[str]


class Strings:
    """See the module.

    Args:
        rules: what to look for, and what becomes of it.
        pace: as `Redactor` has it.
    """

    def __init__(self, rules: Rules, pace: Pace) -> None:
        self._rules, self._pace = rules, pace

    def become(
        self, raw: bytes, rule: Rule | None, counts: Counts, *, escaped: bool, depth: int = 0
    ) -> bytes:
        """What becomes of a string's bytes, or a plain text's; as many bytes."""
        if rule is not None:
            counts[rule.name] += 1
            return self._whole(raw, rule, escaped=escaped)
        if len(raw) < SHORTEST:
            return raw
        if len(raw) <= _WINDOW_BYTES + _OVERLAP_BYTES:
            return self._window(raw, counts, depth, escaped=escaped)
        out = None
        for begin, end in _windows(raw):
            piece = raw[begin:end]
            new = self._window(piece, counts, depth, escaped=escaped)
            if new != piece:  # an earlier window's changes stay
                out = out or self._begun(raw)
                out[begin:end] = over(piece, bytes(out[begin:end]), new, self._pace)
        return raw if out is None else copied(out, 0, len(out))

    def _begun(self, raw: bytes) -> bytearray:
        out = bytearray()
        for at in range(0, len(raw), _WINDOW_BYTES):
            self._pace()
            out += raw[at : at + _WINDOW_BYTES]
        return out

    def _whole(self, raw: bytes, rule: Rule, *, escaped: bool) -> bytes:
        """All of it is replaced; a long one piece by piece."""
        pieces = list(self._pace.through(cut(raw, _WINDOW_BYTES, escaped=escaped)))
        texts = [read(piece, escaped=escaped) for piece in self._pace.through(pieces)]
        each = self._pace.through(zip(pieces, rule.over(texts), texts, strict=True))
        return b"".join(
            [changed(old, [(0, len(text), new)], escaped=escaped) for old, new, text in each]
        )

    def _window(self, raw: bytes, counts: Counts, depth: int, *, escaped: bool) -> bytes:
        self._pace()
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
        covered = _Covered()
        for find, rule in self._rules.finds:
            for span in find(text):
                self._pace()
                start, end = _beside_escapes(text, *span) if "\\" in text else span
                if start < end and not covered.has(start, end):
                    covered.add(start, end)
                    counts[rule.name] += 1
                    changes.append((start, end, rule.instead_of(text[start:end])))
        return changes

    def _inner(self, text: str, counts: Counts, depth: int) -> list[Change]:
        """Strings within the text, as in a tool call's arguments, that are spelled with escapes."""
        parts = split(text.encode("utf-8", "surrogateescape"), self._pace)
        changes: list[Change] = []
        at = 0
        for number, part in enumerate(self._pace.through(parts)):
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

    def any_found(self, raw: bytes, *, escaped: bool) -> bool:
        """Whether anything is found in it."""
        return any(self._any_in(raw[b:e], escaped=escaped) for b, e in _windows(raw))

    def _any_in(self, raw: bytes, *, escaped: bool) -> bool:
        text = read(raw, escaped=escaped)
        for find, _ in self._rules.finds:
            self._pace()
            if any(start < end for start, end in self._pace.through(find(text))):
                return True
        return False


class _Covered:
    """Stretches that were found, of which none stands within another: by start, and so by end."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def has(self, start: int, end: int) -> bool:
        """Whether it stands within one of them."""
        before = bisect_right(self._starts, start)
        return before > 0 and self._ends[before - 1] >= end

    def add(self, start: int, end: int) -> None:
        """One that stands in none."""
        first = last = bisect_left(self._starts, start)
        while last < len(self._ends) and self._ends[last] <= end:
            last += 1
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]


def over(raw: bytes, below: bytes, above: bytes, pace: Pace) -> bytes:
    """What was changed by `above`, and by `below` where it was not."""
    if raw in (above, below):
        return below if above == raw else above
    out = bytearray()
    for at in pace.through(range(0, len(raw), _STEP_BYTES)):
        three = (each[at : at + _STEP_BYTES] for each in (raw, below, above))
        out += bytes(b if c == a else c for a, b, c in zip(*three, strict=True))
    return copied(out, 0, len(out))


def _windows(raw: bytes) -> Iterator[tuple[int, int]]:
    begin = 0
    if len(raw) <= _WINDOW_BYTES + _OVERLAP_BYTES:
        yield 0, len(raw)
        return
    while begin < len(raw):
        end = _cut(raw, min(begin + _WINDOW_BYTES + _OVERLAP_BYTES, len(raw)))
        yield begin, end
        begin = end if end == len(raw) else _cut(raw, begin + _WINDOW_BYTES)


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
