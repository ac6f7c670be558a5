"""A body as documents and lines: JSON, server-sent events, or plain text, each found in its bytes.

A document is the stretches of the body that it is made of (several, where an event has several
data lines). Rule: every byte belongs to a document or is a line's own sign (`data:`, line ends).
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from shadow.redaction.breath import Pace, copied

_STEP_BYTES: Final = 256 * 1024
_STRIDE: Final = 32
_SSE_STARTS: Final = (b"data:", b"event:", b":", b"id:", b"retry:")
_FIELD: Final = re.compile(rb"(?:\xef\xbb\xbf)?(data|event|id|retry|): ?")
_JSON_STARTS: Final = (b"{", b"[", b'"')

Stretch = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Document:
    """Stretches of the body that are read as one, joined by line feeds."""

    stretches: Sequence[int]
    """begin, end, begin, end, …"""
    is_json: bool
    kind: str = ""
    """What plain pieces are joined by: those of one kind are one text."""


def is_events(content_type: str, body: bytes) -> bool:
    """Whether the body is read as server-sent events."""
    start = body[:64].removeprefix(b"\xef\xbb\xbf").lstrip()
    if start[:1] == b"{":
        return False
    return "event-stream" in content_type.lower() or start.startswith(_SSE_STARTS)


def gap(body: bytes, tail_bytes: int, *, streamed: bool) -> Stretch:
    """What stands beside the gap of a body that was cut: halves of lines, of which nobody can say
    what stood in them. Without a tail it is empty, at the body's end.
    """
    begin = len(body) - tail_bytes
    if not tail_bytes or not streamed:
        return begin, len(body)
    end = body.find(b"\n", begin)  # the line's end stays: readers begin behind it
    return body.rfind(b"\n", 0, begin) + 1, len(body) if end < 0 else end


def documents(
    body: bytes, begin: int, end: int, pace: Pace, *, streamed: bool
) -> Iterator[Document]:
    """The documents of a stretch of the body, in order."""
    return events(body, begin, end, pace) if streamed else iter([whole(body, begin, end)])


def whole(body: bytes, begin: int, end: int) -> Document:
    """One document."""
    return Document((begin, end), body[begin : begin + 64].lstrip().startswith(_JSON_STARTS))


def events(body: bytes, begin: int, end: int, pace: Pace) -> Iterator[Document]:
    """The documents of a stream of events, in order."""
    data: Sequence[int] = ()
    rest = array("q")
    for start, stop in _lines(body, begin, end, pace):
        if start == stop:
            yield from _event(body, data)
            data = ()
            continue
        named = _FIELD.match(body, start, stop)
        if named is None:
            rest.extend((start, stop))
        elif named[1] == b"data":
            data = _and(data, named.end(), stop)
        elif named[1] != b"retry" or not body[named.end() : stop].isdigit():
            yield Document((named.end(), stop), is_json=False, kind=named[1].decode())
    yield from _event(body, data)
    if rest:
        yield Document(rest, _start(body, rest[0], rest[1]).startswith(_JSON_STARTS), "rest")


def _lines(body: bytes, begin: int, end: int, pace: Pace) -> Iterator[Stretch]:
    """Where lines stand, without their ends: LF, CR or both."""
    feed = carriage = -1
    number = 0
    while begin < end:
        number += 1
        if not number % _STRIDE:
            pace()
        if feed < begin:
            feed = _found(body, b"\n", begin, end)
        if carriage < begin:
            carriage = _found(body, b"\r", begin, end)
        stop = min(feed, carriage)
        yield begin, stop
        begin = stop + (2 if feed == stop + 1 and carriage == stop else 1)


def _and(stretches: Sequence[int], begin: int, end: int) -> Sequence[int]:
    """With one more; an array where there are several: there may be a million."""
    if not stretches:
        return begin, end
    several = stretches if isinstance(stretches, array) else array("q", stretches)
    several.extend((begin, end))
    return several


def _found(body: bytes, sign: bytes, begin: int, end: int) -> int:
    at = body.find(sign, begin, end)
    return end if at < 0 else at


def _event(body: bytes, data: Sequence[int]) -> Iterator[Document]:
    if not data:
        return
    start = _start(body, data[0], data[1])
    if len(data) > 2 or start != b"[DONE]":
        yield Document(data, start.startswith(_JSON_STARTS), "data")


def _start(body: bytes, begin: int, end: int) -> bytes:
    return body[begin : min(end, begin + 64)].lstrip()


class Paper:
    """A body that is written over in place. What stands in several lines has a place of its own
    behind the body's end, in which it is joined; the lines are written from there.

    Args:
        body: as it was.
        pace: called on the way.
    """

    def __init__(self, body: bytes, pace: Pace) -> None:
        self._body, self._pace = body, pace
        self._new: bytearray | None = None
        self._joined = bytearray()
        self._begins, self._lines = array("q"), array("q")
        """Of the lines that are joined: where they stand there, and where in the body."""

    def opened(self, document: Document) -> tuple[int, bytes]:
        """(place, bytes) of a document."""
        stretches = document.stretches
        if len(stretches) == 2:
            return stretches[0], copied(self._body, stretches[0], stretches[1])
        size, begin = len(self._body), len(self._joined)
        for n in self._pace.through(range(0, len(stretches), 2)):
            self._begins.append(size + len(self._joined))
            self._lines.append(stretches[n])
            self._joined += copied(self._body, stretches[n], stretches[n + 1]) + b"\n"
        return size + begin, copied(self._joined, begin, len(self._joined) - 1)

    def read(self, place: int, size: int) -> bytes:
        """What stood there."""
        if place < len(self._body):
            if size <= _STEP_BYTES:
                return self._body[place : place + size]
            return copied(self._body, place, place + size)
        begin = place - len(self._body)
        return copied(self._joined, begin, begin + size)

    def write(self, place: int, new: bytes) -> None:
        """What stands there from now on."""
        if self._new is None:
            self._new = bytearray()
            for at in range(0, len(self._body), _STEP_BYTES):
                self._pace()
                self._new += self._body[at : at + _STEP_BYTES]
        if place < len(self._body):
            self._new[place : place + len(new)] = new
            return
        line = bisect_right(self._begins, place) - 1
        for n in self._pace.through(range(line, len(self._begins))):
            if self._begins[n] >= place + len(new):
                break
            self._write_line(self._new, n, place, new)

    def _write_line(self, out: bytearray, line: int, place: int, new: bytes) -> None:
        begin = self._begins[line]
        behind = self._begins[line + 1] if line + 1 < len(self._begins) else self._end()
        first, last = max(begin, place), min(behind - 1, place + len(new))
        at = self._lines[line] + first - begin
        if first < last:
            out[at : at + last - first] = new[first - place : last - place]

    def _end(self) -> int:
        return len(self._body) + len(self._joined)

    def taken(self) -> bytes:
        """The body as it is now."""
        return self._body if self._new is None else copied(self._new, 0, len(self._new))
