"""A body as documents and lines: JSON, server-sent events, or plain text, each found in its bytes.

A document is the stretches of the body that it is made of (several, where an event has several
data lines). Rule: every byte belongs to a document or is a line's own sign (`data:`, line ends).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_LINE: Final = re.compile(rb"([^\r\n]*)(\r\n|\r|\n|\Z)")
_SSE_STARTS: Final = (b"data:", b"event:", b":", b"id:", b"retry:")
_FIELD: Final = re.compile(rb"(?:\xef\xbb\xbf)?(data|event|id|retry|): ?")
_JSON_STARTS: Final = (b"{", b"[", b'"')

Stretch = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Document:
    """Stretches of the body that are read as one, joined by line feeds."""

    stretches: tuple[Stretch, ...]
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


def documents(body: bytes, begin: int, end: int, *, streamed: bool) -> list[Document]:
    """The documents of a stretch of the body, in order."""
    if begin >= end:
        return []
    return list(events(body, begin, end)) if streamed else [whole(body, begin, end)]


def whole(body: bytes, begin: int, end: int) -> Document:
    """One document."""
    return Document(((begin, end),), body[begin : begin + 64].lstrip().startswith(_JSON_STARTS))


def events(body: bytes, begin: int, end: int) -> Iterator[Document]:
    """The documents of a stream of events, in order."""
    data: list[Stretch] = []
    rest: list[Stretch] = []
    at = begin
    while at < end:
        line = _LINE.match(body, at, end)
        assert line is not None
        start, stop = line.span(1)
        at = line.end()
        if start == stop:
            yield from _event(body, data)
            data = []
            continue
        named = _FIELD.match(body, start, stop)
        if named is None:
            rest.append((start, stop))
        elif named[1] == b"data":
            data.append((named.end(), stop))
        elif named[1] != b"retry" or not body[named.end() : stop].isdigit():
            yield Document(((named.end(), stop),), is_json=False, kind=named[1].decode())
    yield from _event(body, data)
    if rest:
        first = body[rest[0][0] : rest[0][1]]
        yield Document(tuple(rest), first.lstrip().startswith(_JSON_STARTS), "rest")


def _event(body: bytes, data: list[Stretch]) -> Iterator[Document]:
    if not data:
        return
    begin, end = data[0]
    start = body[begin : min(end, begin + 64)].lstrip()
    if len(data) > 1 or start != b"[DONE]":
        yield Document(tuple(data), start.startswith(_JSON_STARTS), "data")


def joined(body: bytes, document: Document) -> bytes:
    """Its bytes."""
    if len(document.stretches) == 1:
        begin, end = document.stretches[0]
        return body[begin:end]
    return b"\n".join(body[begin:end] for begin, end in document.stretches)


def put(out: bytearray, document: Document, new: bytes) -> None:
    """Write it back, as long as it was."""
    at = 0
    for begin, end in document.stretches:
        out[begin:end] = new[at : at + end - begin]
        at += end - begin + 1
