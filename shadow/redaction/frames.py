"""Frames: what a document's shape says of its strings.

The parts alone, and the keys, say at which path every string stands. Events of one stream are alike
but for their texts, so this is worked out once a shape (a frame) and looked up for every other
event. Never fails: what stands between strings and is no JSON is looked through as text.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shadow.redaction.parts import is_key, keys_of
from shadow.redaction.place import Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shadow.redaction.place import Found
    from shadow.redaction.rules import Rules

_NUMBER: Final = re.compile(
    rb"(?<![0-9.])[0-9]{2,11}(?![0-9])|(?<=[0-9])\.[0-9]+(?:[eE][+-]?[0-9]+)?"
)
"""Numbers that make no difference to a shape: too long for an ordinal, too short for a card."""
_ODD: Final = re.compile(rb"[^\s{}\[\]:,0-9.eE+\-truefalsn]|[0-9]{12}|[0-9]\.[0-9]+\.")
"""What no scalar of JSON has, and numbers that may be a card's: looked through."""
_FRAMES: Final = 512
_MOST_PARTS: Final = 400
"""A document with more strings is not remembered: another like it is not to come."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What a document's shape says of its strings."""

    values: tuple[Found, ...]
    keys: tuple[Found, ...]
    """The same of the keys that cannot be left as they are."""
    between: tuple[tuple[int, bytes], ...]
    """(part's number, what it becomes): scalars under a path's rule, and what is no JSON."""
    counts: Counter[str]
    """How often something is replaced there, by rule."""
    is_common: bool
    """Whether documents that differ in `_NUMBER` only have it too."""


class Frames:
    """Frames by shape. One thread.

    Args:
        rules: for the paths.
        text: what becomes of a key; equal where it may stay.
        between: the same of what stands between strings and is odd; what it replaces is counted.
    """

    def __init__(
        self,
        rules: Rules,
        text: Callable[[bytes], bytes],
        between: Callable[[bytes, Counter[str]], bytes],
    ) -> None:
        self._rules, self._text, self._between = rules, text, between
        self._keys: dict[bytes, tuple[int, ...]] = {}
        self._frames: dict[tuple[bytes, ...], Frame] = {}
        self._clean: dict[bytes, bool] = {}

    def of(self, parts: Sequence[bytes]) -> Frame:
        """The frame of a document that was split."""
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
            frame = self._made(parts)
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

    def _made(self, parts: Sequence[bytes]) -> Frame:
        reader = Reader(self._rules, self._may_stay)
        between, odd = [], False
        for number in range(0, len(parts), 2):
            part = parts[number]
            new = reader.part(part)
            if _ODD.search(part):
                odd = True
                new = self._between(new, reader.counts)
            if new != part:
                between.append((number, new))
            if number + 1 < len(parts):
                reader.string(number // 2, parts[number + 1], is_key(parts[number + 2]))
        return Frame(
            reader.frozen(reader.values),
            reader.frozen(reader.keys),
            tuple(between),
            reader.counts,
            not (between or odd or reader.far),
        )
