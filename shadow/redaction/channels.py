"""Pieces that are one text: looked through joined, so that a secret is found however it was cut."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import TYPE_CHECKING, Final

from shadow.redaction.strings import Counts, Strings, over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shadow.redaction.breath import Pace
    from shadow.redaction.place import Channel
    from shadow.redaction.rules import Rule
    from shadow.redaction.sheet import Paper

_CONSTANT_BYTES: Final = 16
"""Equal pieces of more than this are a value that every event repeats, not a text."""
_TABLES: Final = 256
_LARGE_TABLE: Final = 1024
_MANY_PIECES: Final = 512
_LET_GO: Final = 4096
_GROUP_BYTES: Final = 64 * 1024


class Texts:
    """Pieces by their texts, and what becomes of them.

    In arrays and small tables: a body may have a million texts, and a table that grows, a list that
    is let go of or walked by the collector of garbage is one call under the interpreter's lock.

    Args:
        paper: what they stand on, and are written over on.
        strings: that look through them.
        pace: called on the way.
    """

    def __init__(self, paper: Paper, strings: Strings, pace: Pace) -> None:
        self._paper, self._strings, self._pace = paper, strings, pace
        self._numbers: list[dict[Channel, int]] = [{}]
        self._firsts, self._lasts = array("q"), array("q")
        self._escaped = bytearray()
        self._rules: list[Rule | None] = []
        self._places, self._sizes, self._nexts = array("q"), array("q"), array("q")

    def add(
        self, channel: Channel, place: int, size: int, rule: Rule | None, *, escaped: bool = True
    ) -> None:
        """One more piece."""
        piece = len(self._places)
        self._places.append(place)
        self._sizes.append(size)
        self._nexts.append(-1)
        tables = self._numbers
        table = tables[0] if len(tables) == 1 else tables[hash(channel) % _TABLES]
        text = table.get(channel)
        if text is not None:
            self._nexts[self._lasts[text]] = self._lasts[text] = piece
            return
        table[channel] = len(self._firsts)
        if len(table) > _LARGE_TABLE and len(self._numbers) == 1:
            self._spread(table)
        self._firsts.append(piece)
        self._lasts.append(piece)
        self._escaped.append(escaped)
        self._rules.append(rule)

    def _spread(self, table: dict[Channel, int]) -> None:
        self._numbers = [{} for _ in range(_TABLES)]
        for channel, text in table.items():
            self._numbers[hash(channel) % _TABLES][channel] = text

    def let_go(self, breathe: Callable[[], None]) -> None:
        """Of all of them, a few at a time."""
        while self._numbers:
            breathe()
            table = self._numbers.pop()
            while len(table) > _LET_GO:
                table.popitem()
        while self._rules:
            breathe()
            del self._rules[-_LET_GO:]

    def write_over(self, counts: Counts) -> None:
        """Look through every text, and write over what is found."""
        for text in self._pace.through(range(len(self._firsts))):
            first = self._firsts[text]
            if self._nexts[first] < 0:
                self._alone(text, first, counts)
            elif self._is_constant(first):
                self._constant(text, first, counts)
            else:
                self._several(text, counts)

    def _raw(self, piece: int) -> bytes:
        return self._paper.read(self._places[piece], self._sizes[piece])

    def _pieces(self, piece: int) -> Iterator[int]:
        while piece >= 0:
            yield piece
            piece = self._nexts[piece]

    def _become(self, text: int, raw: bytes, counts: Counts) -> bytes:
        escaped = bool(self._escaped[text])
        return self._strings.become(raw, self._rules[text], counts, escaped=escaped)

    def _alone(self, text: int, piece: int, counts: Counts) -> None:
        raw = self._raw(piece)
        new = self._become(text, raw, counts)
        if new != raw:
            self._paper.write(self._places[piece], new)

    def _is_constant(self, first: int) -> bool:
        if self._sizes[first] <= _CONSTANT_BYTES:
            return False
        raw, size, read, places = (
            self._raw(first),
            self._sizes[first],
            self._paper.read,
            self._places,
        )
        for number, piece in enumerate(self._pieces(first)):
            if self._sizes[piece] != size or read(places[piece], size) != raw:
                return False
            if not number % _MANY_PIECES:
                self._pace()
        return True

    def _constant(self, text: int, first: int, counts: Counts) -> None:
        raw = self._raw(first)
        new = self._become(text, raw, counts)
        if new != raw:
            for piece in self._pace.through(self._pieces(first)):
                self._paper.write(self._places[piece], new)

    def _several(self, text: int, counts: Counts) -> None:
        """Joined, and where anything may be in one of them, each alone as well."""
        first, mine = self._firsts[text], Counter[str]()
        old, groups = self._joined(first)
        new = self._become(text, old, mine)
        each = self._rules[text] is None and self._any_found(text, groups)
        if new == old and not each:
            counts.update(mine)
            return
        alone, at = Counter[str](), 0
        for piece in self._pace.through(self._pieces(first)):
            raw, size = self._raw(piece), self._sizes[piece]
            said = new[at : at + size]
            at += size
            if each:
                said = over(raw, self._become(text, raw, alone), said, self._pace)
            if said != raw:
                self._paper.write(self._places[piece], said)
        counts.update(mine | alone)

    def _joined(self, first: int) -> tuple[bytes, list[bytes]]:
        """All pieces; and groups of them, apart by line feeds."""
        joined: list[bytes] = []  # some at a time, then by a call that lets go of the lock
        groups: list[bytes] = []
        raws: list[bytes] = []
        read, places, sizes = self._paper.read, self._places, self._sizes
        size = 0
        for piece in self._pieces(first):
            size += sizes[piece]
            if raws and (size > _GROUP_BYTES or len(raws) == _MANY_PIECES):
                self._pace()
                joined.append(b"".join(raws))
                groups.append(b"\n".join(raws))
                raws, size = [], sizes[piece]
            raws.append(read(places[piece], sizes[piece]))
        return b"".join([*joined, *raws]), [*groups, b"\n".join(raws)]

    def _any_found(self, text: int, groups: list[bytes]) -> bool:
        """Whether anything is found in them."""
        escaped = bool(self._escaped[text])
        return any(self._strings.any_found(group, escaped=escaped) for group in groups)
