"""Where in a document a string stands, by the braces, keys and commas before it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from shadow.redaction.spelling import read

if TYPE_CHECKING:
    from collections.abc import Callable

    from shadow.redaction.rules import Rule, Rules

_TOKEN: Final = re.compile(rb"[{}\[\]]|:|[^{}\[\]:]+")
_SCALAR: Final = re.compile(rb"[^\s,]+")
_ORDINALS: Final = frozenset({"index", "output_index", "content_index"})
"""Keys that say to which of several texts a piece of a stream belongs."""

Channel = tuple[object, ...]
"""Pieces with the same channel are one text, in order."""

Found = tuple[int, Channel, "Rule | None"]
"""(string's number, channel, the rule of a path)."""


@dataclass(slots=True)
class _Node:
    parent: _Node | None
    step: str
    """`[3]`, `.key`, or "" at the top."""
    is_list: bool
    count: int = 0
    """Of a list: the element's number; -1 at the top, which has none."""
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

    def pass_commas(self, number: int) -> None:
        """So many elements of a list have ended."""
        if self.is_list and self.count >= 0:
            self.count += number


_Open = tuple[int, _Node, str, "Rule | None"]
"""As `Found`, while its channel is not known: its node, and the step from there."""


class Reader:
    """Follows a document's braces, part by part, string by string.

    Args:
        rules: for the paths.
        may_stay: whether a key may be left as it is.
    """

    def __init__(self, rules: Rules, may_stay: Callable[[bytes], bool]) -> None:
        self._rules, self._may_stay = rules, may_stay
        self._at = _Node(None, "", is_list=True)
        self._at.count = -1
        self.counts: Counter[str] = Counter()
        self.far = False
        """There is an ordinal of several digits."""
        self.values: list[_Open] = []
        self.keys: list[_Open] = []

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

    def frozen(self, found: list[_Open]) -> tuple[Found, ...]:
        """With their channels, which are known at the end: an ordinal may come behind its text."""
        return tuple((n, (*node.channel(), step), rule) for n, node, step, rule in found)

    def _step(self) -> str:
        return "" if self._at.count < 0 else self._at.child()

    def _scalars(self, token: bytes) -> bytes:
        """Numbers, words and commas; elements are counted by these."""
        self._note_ordinal(token)
        if not self._rules.paths:
            self._at.pass_commas(token.count(b","))
            return token
        first, *others = token.split(b",")
        pieces = [self._scalar(first)]
        for piece in others:
            self._at.pass_commas(1)
            pieces.append(self._scalar(piece))
        return b",".join(pieces)

    def _note_ordinal(self, token: bytes) -> None:
        node = self._at
        if node.key in _ORDINALS and (said := _SCALAR.search(token)):
            node.ordinals.append(f"{node.key}={said[0].decode('latin-1')}")
            self.far = self.far or len(said[0]) > 1

    def _scalar(self, piece: bytes) -> bytes:
        rule = _SCALAR.search(piece) and self._rules.of_path(self._at.path() + self._step())
        if not rule or rule.action == "words":
            return piece
        self.counts[rule.name] += 1
        return _SCALAR.sub(_zero if rule.action == "zeros" else _blank, piece)


def _zero(scalar: re.Match[bytes]) -> bytes:
    return b"0".ljust(len(scalar[0]))


def _blank(scalar: re.Match[bytes]) -> bytes:
    """null, or 0 where that does not fit."""
    size = len(scalar[0])
    return b"null".ljust(size) if size >= 4 else b"0".ljust(size)
