"""Where in a document a string stands, by the braces, keys and commas before it."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shadow.redaction.breath import TooLong, copied
from shadow.redaction.spelling import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shadow.redaction.breath import Pace
    from shadow.redaction.rules import Rule, Rules

_TOKEN: Final = re.compile(rb"[{}\[\]]|:|[^{}\[\]:]{1,16384}+(?:[^{}\[\]:,]{0,16384}+,)?")
"""Many numbers in pieces that end with a comma."""
_LONG_BYTES: Final = 4096
_LET_GO: Final = 512
_DEEPEST: Final = 900
"""Levels; what is nested deeper is withheld: its paths cannot be told, nor can JSON's readers."""
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
    depth: int = 0
    ordinals: tuple[str, ...] = ()
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


class Opens:
    """Strings whose channels are not known yet: each with its node, and the step from there.

    Not a tuple each: many of them would be walked by the collector of garbage, in one go.
    """

    def __init__(self) -> None:
        self._numbers = array("q")
        self._nodes: list[_Node] = []
        self._steps: list[str] = []
        self._rules: list[Rule | None] = []

    def add(self, number: int, node: _Node, step: str, rule: Rule | None) -> None:
        """One more."""
        self._numbers.append(number)
        self._nodes.append(node)
        self._steps.append(step)
        self._rules.append(rule)

    def found(self) -> Iterator[Found]:
        """With their channels, which are known at the end: an ordinal may come behind its text."""
        each = zip(self._numbers, self._nodes, self._steps, self._rules, strict=True)
        return ((n, (*node.channel(), step), rule) for n, node, step, rule in each)

    def let_go(self, breathe: Callable[[], None]) -> None:
        """Of all, a few at a time."""
        while self._nodes:
            breathe()
            del self._nodes[-_LET_GO:], self._steps[-_LET_GO:], self._rules[-_LET_GO:]


class Reader:
    """Follows a document's braces, part by part, string by string.

    Args:
        rules: for the paths.
        may_stay: whether a key may be left as it is.
        pace: called on the way.
    """

    def __init__(self, rules: Rules, may_stay: Callable[[bytes], bool], pace: Pace) -> None:
        self._rules, self._may_stay, self._pace = rules, may_stay, pace
        self._at = _Node(None, "", is_list=True)
        self._at.count = -1
        self.counts: Counter[str] = Counter()
        self.far = False
        """There is an ordinal of several digits."""
        self.values, self.keys = Opens(), Opens()

    def part(self, part: bytes) -> bytes:
        """Take what stands between two strings; its scalars blanked where a path's rule says so."""
        if len(part) > _LONG_BYTES:
            return self._long_part(part)
        return b"".join(map(self._token, _TOKEN.findall(part)))

    def _long_part(self, part: bytes) -> bytes:
        new = bytearray()
        for token in self._pace.through(_TOKEN.finditer(part)):
            said = self._token(token[0])
            if self._rules.paths:
                new += said
        return copied(new, 0, len(new)) if self._rules.paths else part

    def _token(self, token: bytes) -> bytes:
        if token in (b"{", b"["):
            self._at = _Node(self._at, self._step(), token == b"[", depth=self._at.depth + 1)
            if self._at.depth > _DEEPEST:
                raise TooLong
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
                self.keys.add(number, self._at, f"key {self._at.key}", rule)
            return
        step = self._step()
        rule = self._rules.of_path(self._at.path() + step) if self._rules.paths else None
        self.values.add(number, self._at, step, rule)

    def let_go(self) -> None:
        """Of what was found, a few at a time."""
        self.values.let_go(self._pace.breathe)
        self.keys.let_go(self._pace.breathe)

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
        for piece in self._pace.through(others):
            self._at.pass_commas(1)
            pieces.append(self._scalar(piece))
        return b",".join(pieces)

    def _note_ordinal(self, token: bytes) -> None:
        node = self._at
        if node.key in _ORDINALS and (said := _SCALAR.search(token)):
            node.ordinals += (f"{node.key}={said[0].decode('latin-1')}",)
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
