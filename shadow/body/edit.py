"""Changes of a JSON body that leave every other byte as it stands.

A value is replaced where it is, in each of its duplicates; what was absent is added at the end; a
member is taken away with one comma. Key order, number spelling, escapes and white space stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from shadow.body.scan import Member, Object

Pieces = list[bytes | bytearray | memoryview]
"""A body in parts, most of them views of the client's: nothing large is copied."""


class Edit(NamedTuple):
    """`body[start:end]` becomes `text`."""

    start: int
    end: int
    text: bytes


def edits(
    found: Object, values: Mapping[bytes, bytes], removed: Iterable[bytes] = ()
) -> list[Edit]:
    """What makes each of `values` (name: JSON text) so, and takes `removed` away."""
    gone = frozenset(removed)
    kept = [member for member in found.members if member.name not in gone]
    made = _removals(found, kept)
    made += [Edit(m.at, m.end, values[m.name]) for m in kept if m.name in values]
    there = {member.name for member in kept}
    end = kept[-1].end if kept else found.start + 1
    comma = b"," if kept else b""
    for name, text in values.items():
        if name not in there:
            made.append(Edit(end, end, comma + key_text(name) + b":" + text))
            comma = b","
    return made


def _removals(found: Object, kept: list[Member]) -> list[Edit]:
    """A member goes up to the one that follows; the last ones from the last kept value on."""
    made = []
    members = found.members
    last = kept[-1].start if kept else -1
    staying = {member.start for member in kept}
    for member, after in pairwise(members):
        if member.start not in staying and member.start < last:
            made.append(Edit(member.start, after.start, b""))
    if members and members[-1].start != last:
        begin = kept[-1].end if kept else members[0].start
        made.append(Edit(begin, members[-1].end, b""))
    return made


def key_text(name: bytes) -> bytes:
    """A plain name as a JSON string."""
    return b'"' + name + b'"'


def applied(body: bytes | bytearray, made: list[Edit]) -> Pieces:
    """The body with its changes: pieces that follow each other."""
    pieces: Pieces = []
    at = 0
    with memoryview(body) as whole:
        for edit in sorted(made, key=lambda edit: (edit.start, edit.end)):
            pieces += [whole[at : edit.start], edit.text]
            at = edit.end
        pieces.append(whole[at:])
    return pieces
