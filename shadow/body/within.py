"""What is changed within the objects that are a body's values: what is set, what is taken away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from shadow.body.edit import Edit, edits, key_text
from shadow.body.names import MOST_DEEP
from shadow.body.scan import Member, Object, Scanner, Steps, TooMuch
from shadow.body.staying import HOLDERS, left_behind
from shadow.credentials import UNLISTED

_TOLD_DEEP: Final = 1
"""Objects within an object that a record tells by their names."""
_SMALL_BYTES: Final = 1024
"""A larger object is read in a step of its own: there may be several."""


@dataclass(slots=True)
class Changes:
    """Edits of a body, and which names they alter: configured ones, ours, or `UNLISTED`."""

    edits: list[Edit] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def add(self, parent: bytes, more: Changes) -> None:
        """Changes within `parent` are changes of what holds it."""
        self.edits += more.edits
        self.names += [f"{parent.decode()}.{name}" for name in more.names]


@dataclass(slots=True)
class Inside:
    """What to set in one object, and what to take away."""

    values: dict[bytes, bytes] = field(default_factory=dict)
    removed: list[bytes] = field(default_factory=list)


def by_parent(
    values: Mapping[str, bytes], removed: Iterable[str], found: Object
) -> dict[bytes, Inside]:
    """What is wanted, by the object that it lies in; those that may hold credentials are always
    looked into.
    """
    inside: dict[bytes, Inside] = {}
    for name, text in values.items():
        parent, dot, child = name.partition(".")
        if dot:
            inside.setdefault(parent.encode(), Inside()).values[child.encode()] = text
    for name in removed:
        parent, dot, child = name.partition(".")
        if dot:
            inside.setdefault(parent.encode(), Inside()).removed.append(child.encode())
    for member in found.members:
        if member.name in HOLDERS:
            inside.setdefault(member.name, Inside())
    return inside


def within(scanner: Scanner, member: Member, wanted: Inside, deep: int = 0) -> Steps[Changes]:
    """The changes of an object that is a value. A null becomes one; anything else is no object, and
    the arm will say so as the primary does.

    Raises:
        NotJson, TooMuch: of the object.
    """
    body = scanner.body
    if body[member.at] != b"{"[0]:
        if wanted.values and body[member.at : member.end] == b"null":
            new = Edit(member.at, member.end, object_of(wanted.values))
            return Changes([new], [name.decode() for name in wanted.values])
        return Changes()
    if member.end - member.at > _SMALL_BYTES:
        yield
    # a scanner of its own, with a count of its own: no arm spends another's
    inner = yield from Scanner(body).members(member.at)
    values = {k: text for k, text in wanted.values.items() if not says(body, inner, k, text)}
    gone = {name: name.decode() for name in wanted.removed if inner.last(name) is not None}
    made = Changes()
    if member.name in HOLDERS:
        gone = (yield from left_behind(body, inner, member.name, wanted.values)) | gone
        yield from _deeper(scanner, inner, {*gone, *wanted.values}, made, deep)
    made.names += [*(name.decode() for name in values), *gone.values()]
    made.edits += edits(inner, values, gone)
    return made


def _deeper(
    scanner: Scanner, inner: Object, decided: set[bytes], made: Changes, deep: int
) -> Steps[None]:
    """Holders within a holder, unless it is decided what becomes of them."""
    for each in inner.members:
        if each.name in HOLDERS and each.name not in decided:
            if deep == MOST_DEEP:
                raise TooMuch("objects within objects")
            more = yield from within(scanner, each, Inside(), deep + 1)
            if deep < _TOLD_DEEP:
                made.add(each.name, more)
            elif more.edits:
                made.edits += more.edits
                made.names.append(UNLISTED)


def object_of(values: Mapping[bytes, bytes]) -> bytes:
    """These members as an object's JSON text."""
    inside = b",".join(key_text(name) + b":" + text for name, text in values.items())
    return b"{" + inside + b"}"


def says(body: bytes | bytearray, found: Object, name: bytes, text: bytes) -> bool:
    """Whether a member has this value already, wherever it stands."""
    there = [m for m in found.members if m.name == name]
    return bool(there) and all(
        m.end - m.at == len(text) and body[m.at : m.end] == text for m in there
    )
