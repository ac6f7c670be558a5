"""JSON as it lies in its bytes: a document split at its strings, without reading it.

parts[0], strings[0], parts[1] … Never fails: what is no JSON has strings too.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from itertools import accumulate, count
from operator import add
from typing import Final, overload

import regex

from shadow.redaction.breath import Pace, copied
from shadow.redaction.detectors.search import matches

_STRING: Final = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+\\?)"?', re.DOTALL)
"""The last one may lack its end."""
_FREE_STRING: Final = regex.compile(_STRING.pattern, regex.DOTALL)
_LONG_BYTES: Final = 16 * 1024
"""Longer documents are split by what lets go of the interpreter's lock, string by string."""


class Parts(Sequence[bytes]):
    """The parts and strings of a long document, as where they stand: to hold and to let go of
    millions of them is no more than of two arrays.

    Args:
        document: its bytes.
        pace: called on the way.
    """

    def __init__(self, document: bytes, pace: Pace) -> None:
        self._document = document
        self.begins, self._ends = array("q", [0]), array("q")
        begins, ends = self.begins, self._ends
        strings = 0
        for found in pace.through(matches(_FREE_STRING, document)):
            begin, end = found.span(1)
            ends.append(found.start())
            begins.append(begin)
            ends.append(end)
            begins.append(end + 1)  # as if the last one had its end
            strings += end - begin
        ends.append(len(document))
        self.bytes_between = len(document) - strings
        """Of all that stands between strings."""

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        if isinstance(at, slice):
            return [self[n] for n in range(*at.indices(len(self)))]
        return copied(self._document, self.begins[at], self._ends[at])


def split(document: bytes, pace: Pace | None = None) -> Sequence[bytes]:
    """parts[0], strings[0], parts[1], …, parts[n]: strings without their quotes."""
    if len(document) > _LONG_BYTES:
        return Parts(document, pace or Pace())
    return _STRING.split(document)


def offsets_of(parts: Sequence[bytes]) -> Sequence[int]:
    """Where each of the parts and strings begins: between two neighbours stands a quote."""
    if type(parts) is Parts:
        return parts.begins
    return list(map(add, accumulate(map(len, parts), initial=0), count()))


def is_key(following: bytes) -> bool:
    """Whether the string is a key, by the part that follows it."""
    if following[:1] == b":":
        return True
    for at in range(0, len(following), _LONG_BYTES):
        if said := following[at : at + _LONG_BYTES].lstrip():
            return said[:1] == b":"
    return False


def keys_of(parts: Sequence[bytes]) -> list[int]:
    """Where keys stand among the parts."""
    return [n - 1 for n in range(2, len(parts), 2) if is_key(parts[n])]
