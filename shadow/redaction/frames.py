"""JSON as it lies in its bytes: which string stands where, without reading the document.

A document is split at its strings: parts[0], strings[0], parts[1] … The parts alone, and the keys,
say at which path every string stands. Events of one stream are alike but for their texts, so this
is worked out once a shape (a frame) and looked up for every other event. Never fails: what is no
JSON has strings too, and what stands between them is looked through as text.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import regex

from shadow.redaction.spelling import read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shadow.redaction.rules import Rule, Rules

_STRING: Final = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+\\?)"?', re.DOTALL)
"""The last one may lack its end."""
_FREE_STRING: Final = regex.compile(_STRING.pattern, regex.DOTALL)
_LONG_BYTES: Final = 64 * 1024
"""Longer documents are split by what lets go of the interpreter's lock, string by string."""
_TOKEN: Final = re.compile(rb"[{}\[\]]|:|[^{}\[\]:]+")
_SCALAR: Final = re.compile(rb"[^\s,]+")
_ORDINALS: Final = frozenset({"index", "output_index", "content_index"})
"""Keys that say to which of several texts a piece of a stream belongs."""
_NUMBER: Final = re.compile(
    rb"(?<![0-9.])[0-9]{2,11}(?![0-9])|(?<=[0-9])\.[0-9]+(?:[eE][+-]?[0-9]+)?"
)
"""Numbers that make no difference to a shape: too long for an ordinal, too short for a card."""
_ODD: Final = re.compile(rb"[^\s{}\[\]:,0-9.eE+\-truefalsn]|[0-9]{12}|[0-9]\.[0-9]+\.")
"""What no scalar of JSON has, and numbers that may be a card's: looked through."""
_FRAMES: Final = 512
_MOST_PARTS: Final = 400
"""A document with more strings is not remembered: another like it is not to come."""

Channel = tuple[object, ...]
"""Pieces with the same channel are one text, in order."""


def split(document: bytes) -> list[bytes]:
    """parts[0], strings[0], parts[1], …, parts[n]: strings without their quotes."""
    if len(document) > _LONG_BYTES:
        return list(_FREE_STRING.splititer(document, concurrent=True))
    return _STRING.split(document)


def offset_of(parts: Sequence[bytes], number: int) -> int:
    """Where the numbered string begins in the document, behind its quote."""
    return sum(map(len, parts[: 2 * number + 1])) + 2 * number + 1


@dataclass(frozen=True, slots=True)
class Frame:
    """What a document's shape says of its strings."""

    values: tuple[tuple[int, Channel, Rule | None], ...]
    """(string's number, channel, the rule of a path)."""
    keys: tuple[tuple[int, Channel, Rule | None], ...]
    """The same of the keys that cannot be left as they are."""
    between: tuple[tuple[int, bytes], ...]
    """(part's number, what it becomes): scalars under a path's rule, and what is no JSON."""
    counts: Counter[str]
    """How often something is replaced there, by rule."""
    is_common: bool
    """Whether documents that differ in `_NUMBER` only have it too."""


@dataclass(slots=True)
class _Node:
    parent: _Node | None
    step: str
    """`[3]`, `.key`, or "" at the top."""
    is_list: bool
    count: int = 0
    key: str | None = None
    ordinals: list[str] = field(default_factory=list)
    _channel: Channel | None = None

    def path(self) -> str:
        return (self.parent.path() if self.parent else "") + self.step

    def channel(self) -> Channel:
        """The way down; an element that has an ordinal goes by it, wherever it stands."""
        if self._channel is None:
            above = self.parent.channel() if self.parent else ()
            self._channel = (*above, *(self.ordinals or (self.step,)))
        return self._channel

    def child(self) -> str:
        if self.is_list:
            return f"[{self.count}]"
        return "" if self.key is None else f".{self.key}"


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
            keys = self._keys[shape] = tuple(_keys_of(parts))
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
        reader = _Reader(self._rules, self._may_stay)
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
                reader.string(number // 2, parts[number + 1], _is_key(parts[number + 2]))
        return Frame(
            reader.frozen(reader.values),
            reader.frozen(reader.keys),
            tuple(between),
            reader.counts,
            not (between or odd or reader.far),
        )


def _is_key(following: bytes) -> bool:
    return following[:1] == b":" or following.lstrip()[:1] == b":"


def _keys_of(parts: Sequence[bytes]) -> list[int]:
    return [n - 1 for n in range(2, len(parts), 2) if _is_key(parts[n])]


class _Reader:
    """Follows the braces."""

    def __init__(self, rules: Rules, may_stay: Callable[[bytes], bool]) -> None:
        self._rules, self._may_stay = rules, may_stay
        self._at = _Node(None, "", is_list=True)
        self._at.count = -1
        self.counts: Counter[str] = Counter()
        self.far = False
        """There is an ordinal of several digits."""
        self.values: list[tuple[int, _Node, str, Rule | None]] = []
        self.keys: list[tuple[int, _Node, str, Rule | None]] = []

    def part(self, part: bytes) -> bytes:
        """Take what stands between two strings; its scalars blanked where a path's rule says so."""
        return b"".join(map(self._token, _TOKEN.findall(part)))

    def _token(self, token: bytes) -> bytes:
        if token in (b"{", b"["):
            self._at = _Node(self._at, self._step(), is_list=token == b"[")
        elif token in (b"}", b"]"):
            self._at = self._at.parent or self._at
        elif token != b":":
            return self._scalars(token)
        return token

    def string(self, number: int, raw: bytes, is_key: bool) -> None:  # noqa: FBT001 as it is found
        """Take the string that follows."""
        if is_key:
            self._at.key = read(raw)
            rule = self._rules.of_path(self._at.path()) if self._rules.paths else None
            if rule or not self._may_stay(raw):
                self.keys.append((number, self._at, f"key {self._at.key}", rule))
            return
        step = self._step()
        rule = self._rules.of_path(self._at.path() + step) if self._rules.paths else None
        self.values.append((number, self._at, step, rule))

    def frozen(
        self, found: list[tuple[int, _Node, str, Rule | None]]
    ) -> tuple[tuple[int, Channel, Rule | None], ...]:
        """With their channels, which are known at the end: an ordinal may come behind its text."""
        return tuple((n, (*node.channel(), step), rule) for n, node, step, rule in found)

    def _step(self) -> str:
        return "" if self._at.count < 0 else self._at.child()

    def _scalars(self, token: bytes) -> bytes:
        """Numbers, words and commas; elements are counted by these."""
        node = self._at
        if node.key in _ORDINALS and (said := _SCALAR.search(token)):
            node.ordinals.append(f"{node.key}={said[0].decode('latin-1')}")
            self.far = self.far or len(said[0]) > 1
        if not self._rules.paths:
            node.count += token.count(b",") if node.is_list and node.count >= 0 else 0
            return token
        pieces = []
        for piece in token.split(b","):
            named = _SCALAR.search(piece) and self._rules.of_path(node.path() + self._step())
            if named and named.action != "words":
                self.counts[named.name] += 1
                piece = _SCALAR.sub(_zero if named.action == "zeros" else _blank, piece)  # noqa: PLW2901
            pieces.append(piece)
            node.count += 1 if node.is_list and node.count >= 0 else 0
        node.count -= 1 if node.is_list and node.count > 0 else 0
        return b",".join(pieces)


def _zero(scalar: re.Match[bytes]) -> bytes:
    return b"0".ljust(len(scalar[0]))


def _blank(scalar: re.Match[bytes]) -> bytes:
    """null, or 0 where that does not fit."""
    size = len(scalar[0])
    return b"null".ljust(size) if size >= 4 else b"0".ljust(size)
