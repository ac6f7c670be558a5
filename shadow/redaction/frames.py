"""Frames: what a document's shape says of its strings.

The parts alone, and the keys, say at which path every string stands. Events of one stream are alike
but for their texts, so this is worked out once a shape (a frame) and looked up for every other
event. Never fails: what stands between strings and is no JSON is looked through as text.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

import regex

from shadow.redaction.breath import Pace, copied
from shadow.redaction.parts import Parts, is_key, keys_of
from shadow.redaction.place import Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from shadow.redaction.place import Found
    from shadow.redaction.rules import Rules

_NUMBER: Final = re.compile(
    rb"(?<![0-9.])[0-9]{2,11}(?![0-9])|(?<=[0-9])\.[0-9]+(?:[eE][+-]?[0-9]+)?"
)
"""Numbers that make no difference to a shape: too long for an ordinal, too short for a card."""
_ODD: Final = re.compile(
    rb"[^\s{}\[\]:,0-9.eE+\-truefalsn]|[0-9]{12}|[0-9]\.[0-9]+\."
    rb"|[0-9][\s+\-]+[0-9]|(?<![eE])\+"
)
"""What no scalar of JSON has, digits in groups among it, and numbers that may be a card's: looked
through."""
_FREE_ODD: Final = regex.compile(_ODD.pattern)
_LONG_BYTES: Final = 4096
_FRAMES: Final = 512
_MOST_PARTS: Final = 400
_MOST_BETWEEN_BYTES: Final = 16 * 1024
"""A document with more strings, or more between them, is not remembered: another like it is not to
come."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What a document's shape says of its strings."""

    found: Iterable[Found]
    """Values, then the keys that cannot be left as they are."""
    between: Iterable[tuple[int, bytes]]
    """(part's number, what it becomes): scalars under a path's rule, and what is no JSON."""
    counts: Counter[str]
    """How often something is replaced there, by rule."""
    is_common: bool
    """Whether documents that differ in `_NUMBER` only have it too."""
    let_go: Callable[[], None] | None = None
    """To be called when `found` and `between` were read, where they can be read once only."""


class Frames:
    """Frames by shape. One thread.

    Args:
        rules: for the paths.
        text: what becomes of a key; equal where it may stay.
        between: the same of what stands between strings and is odd; what it replaces is counted.
        pace: called on the way.
    """

    def __init__(
        self,
        rules: Rules,
        text: Callable[[bytes], bytes],
        between: Callable[[bytes, Counter[str]], bytes],
        pace: Pace | None = None,
    ) -> None:
        self._rules, self._text, self._between = rules, text, between
        self._pace = pace or Pace()
        self._keys: dict[bytes, tuple[int, ...]] = {}
        self._frames: dict[tuple[bytes, ...], Frame] = {}
        self._clean: dict[bytes, bool] = {}

    def of(self, parts: Sequence[bytes]) -> Frame:
        """The frame of a document that was split."""
        if type(parts) is Parts and parts.bytes_between > _MOST_BETWEEN_BYTES:
            return self._made(parts)
        if len(parts) > _MOST_PARTS:
            return self._made(parts)
        exact = b'"'.join(parts[::2])
        shape = _NUMBER.sub(b"00", exact)
        keys = self._keys.get(shape)
        if keys is None:
            self._make_room()
            keys = self._keys[shape] = tuple(keys_of(parts))
        named = [parts[n] for n in keys]
        frame = self._frames.get((shape, *named)) or self._frames.get((exact, *named))
        if frame is None:
            frame = self._made(parts, remembered=True)
            self._frames[(shape if frame.is_common else exact, *named)] = frame
        return frame

    def _may_stay(self, key: bytes) -> bool:
        clean = self._clean.get(key)
        if clean is None:
            clean = self._clean[key] = self._text(key) == key
        return clean

    def _make_room(self) -> None:
        if len(self._keys) >= _FRAMES or len(self._frames) >= _FRAMES:
            self._keys.clear()
            self._frames.clear()
        if len(self._clean) >= 8 * _FRAMES:
            self._clean.clear()

    def _made(self, parts: Sequence[bytes], *, remembered: bool = False) -> Frame:
        reader = Reader(self._rules, self._may_stay, self._pace)
        between, odd = Between(), False
        try:
            for number in self._pace.through(range(0, len(parts), 2)):
                part = parts[number]
                new = reader.part(part)
                if _is_odd(part):
                    odd = True
                    new = self._between(new, reader.counts)
                if new != part:
                    between.add(number, new)
                if number + 1 < len(parts):
                    reader.string(number // 2, parts[number + 1], is_key(parts[number + 2]))
        except BaseException:
            reader.let_go()
            raise
        found = chain(reader.values.found(), reader.keys.found())
        common = not (between or odd or reader.far)
        if remembered:
            return Frame(tuple(found), tuple(between.each()), reader.counts, common)
        return Frame(found, between.each(), reader.counts, common, reader.let_go)


def _is_odd(part: bytes) -> bool:
    if len(part) <= _LONG_BYTES:
        return _ODD.search(part) is not None
    return _FREE_ODD.search(part, concurrent=True) is not None


class Between:
    """Parts and what they become, in two arrays and one text, however many they are."""

    def __init__(self) -> None:
        self._numbers, self._ends = array("q"), array("q")
        self._new = bytearray()

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def add(self, number: int, new: bytes) -> None:
        """One more."""
        self._numbers.append(number)
        self._new += new
        self._ends.append(len(self._new))

    def each(self) -> Iterator[tuple[int, bytes]]:
        """(part's number, what it becomes)."""
        begin = 0
        for number, end in zip(self._numbers, self._ends, strict=True):
            yield number, copied(self._new, begin, end)
            begin = end
