"""Pieces that are one text: looked through joined, so that a secret is found however it was cut."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from shadow.redaction.spelling import read
from shadow.redaction.strings import Counts, Strings, over

if TYPE_CHECKING:
    from shadow.redaction.rules import Rule

_CONSTANT_BYTES: Final = 16
"""Equal pieces of more than this are a value that every event repeats, not a text."""


@dataclass(slots=True)
class Text:
    """The pieces of one channel, in order."""

    escaped: bool
    rule: Rule | None
    places: list[tuple[int, int]] = field(default_factory=list)
    """(document's number, place among its parts and strings)."""
    raws: list[bytes] = field(default_factory=list)

    def add(self, place: tuple[int, int], raw: bytes) -> None:
        """One more piece."""
        self.places.append(place)
        self.raws.append(raw)


def become(text: Text, strings: Strings, counts: Counts) -> list[bytes]:
    """What becomes of its pieces, each as long as it was; what was replaced is counted."""
    raws, first = text.raws, text.raws[0]
    if len(raws) == 1:
        return [strings.become(first, text.rule, counts, escaped=text.escaped)]
    if len(first) > _CONSTANT_BYTES and raws.count(first) == len(raws):
        new = strings.become(first, text.rule, counts, escaped=text.escaped)
        return [new] * len(raws)
    mine: Counts = Counter()
    pieces = _joined(text, strings, mine)
    apart = read(b"\n".join(raws), escaped=text.escaped)
    if text.rule is None and strings.any_found(apart):
        alone: Counts = Counter()
        pieces = _each_alone(text, strings, alone, pieces)
        mine |= alone
    counts.update(mine)
    return pieces


def _joined(text: Text, strings: Strings, counts: Counts) -> list[bytes]:
    new = strings.become(b"".join(text.raws), text.rule, counts, escaped=text.escaped)
    at, pieces = 0, []
    for raw in text.raws:
        pieces.append(new[at : at + len(raw)])
        at += len(raw)
    return pieces


def _each_alone(text: Text, strings: Strings, counts: Counts, joined: list[bytes]) -> list[bytes]:
    """Over `joined`: what is found in a piece where it begins and ends."""
    pieces = []
    for raw, above in zip(text.raws, joined, strict=True):
        new = strings.become(raw, None, counts, escaped=text.escaped)
        pieces.append(over(raw, new, above))
    return pieces
