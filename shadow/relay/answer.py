"""Heads of answers, sans-IO and read leniently: no client gets an error it would not have had.

What an answer leaves open is decided: chunked wins over a length, a folded line is joined by one
space, equal lengths are one. Only without any reading is it refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from shadow.relay.fields import (
    CHUNKED,
    CODING,
    CONNECTION,
    LENGTH,
    MAX_DIGITS,
    PLAIN,
    UNTIL_CLOSE,
    UPGRADE,
    NotAField,
    drop_named,
    known,
    meaning,
    options,
)

_NOTHING: Final[frozenset[bytes]] = frozenset()
MAX_FIELDS: Final = 256
MAX_MEMBERS: Final = 4096


class BadAnswer(Exception):
    """An answer in which no framing can be found."""


@dataclass(slots=True)  # not frozen: a frozen one costs a microsecond more an answer
class AnswerHead:
    """An answer as it goes on: `lines` without hop-by-hop fields, raw, the status line first."""

    status: int
    lines: list[bytes]
    length: int
    """Bytes of body, CHUNKED, or UNTIL_CLOSE; a HEAD's answer has 0."""
    coding: bytes | None
    """The Transfer-Encoding line, which also stands in `lines`."""
    keep: bool
    """The upstream's connection may serve another request."""
    sound: bool
    """Its framing had one reading only; if not, the client's connection is not kept either."""

    def encode(self, *, http11: bool, close: bool) -> bytes:
        """The head's bytes towards a client."""
        lines = self.lines
        if not http11 and self.coding is not None:
            lines = [line for line in lines if line is not self.coding]
        end = b"\r\nConnection: close\r\n\r\n" if close else b"\r\n\r\n"
        return b"\r\n".join(lines) + end


def find_answer_head(buffer: bytes | bytearray, start: int = 0) -> tuple[int, int] | None:
    """(end of the head, start of what follows), or None while the empty line has not come.

    `start` is where to look from: the head's beginning, or 2 bytes before what was not looked at.
    """
    end = buffer.find(b"\n\r\n", start)
    bare = buffer.find(b"\n\n", start, end + 1 if end >= 0 else len(buffer))
    if bare >= 0:
        return bare, bare + 2
    return (end, end + 3) if end >= 0 else None


def within_bounds(head: bytes) -> bytes:
    """The head, if it has no more fields and list members than an engine's ever has.

    An arm's head is judged so before it is parsed: parsing 80,000 fields would take 50 ms.

    Raises:
        BadAnswer: it has more.
    """
    if head.count(b"\n") > MAX_FIELDS or head.count(b",") > MAX_MEMBERS:
        raise BadAnswer(f"the answer has more than {MAX_FIELDS} fields")
    return head


def parse_answer(  # noqa: C901, PLR0912 one pass
    head: bytes, *, bodyless: bool, upgrade: bool = False
) -> AnswerHead:
    """Read an answer's head, without the line end and the empty line behind it.

    Args:
        head: the bytes; bare LF is taken for a line end, a folded line is joined by one space.
        bodyless: it answers a HEAD.
        upgrade: the request asked for a websocket, so a 101 keeps its Upgrade field.

    Raises:
        BadAnswer: no framing can be found.
    """
    lines = _lines(head)
    status, http11 = _status_line(lines[0])
    kept = [lines[0] if http11 else b"HTTP/1.1" + lines[0][8:]]
    lengths = codings = connection = b""
    length_at = 0
    upgrade_line = None
    for line in lines[1:]:
        colon = line.find(b":")
        kind = known.get(line[:colon], -1) if colon > 0 else -1
        if kind < 0:
            kind, line = _lenient_meaning(line, colon)  # noqa: PLW2901 white space is mended
        if kind < LENGTH:
            kept.append(line)
            continue
        value = line[line.find(b":") + 1 :].strip(b" \t")
        if kind == LENGTH:
            if length_at:
                lengths += b"," + value
            else:
                length_at = len(kept)
                lengths = value or b"?"
                kept.append(line)
        elif kind == CODING:
            codings = codings + b", " + value if codings else value or b"?"
        elif kind == CONNECTION:
            connection = connection + b"," + value if connection else value
        elif kind == UPGRADE:
            upgrade_line = line
    names = options(connection) if connection else _NOTHING
    keep = (http11 and b"close" not in names) or (not http11 and b"keep-alive" in names)
    sound = not (codings and lengths)
    length = 0
    final = not 100 <= status < 200
    if not bodyless and final and status != 204 and status != 304:  # noqa: PLR1714 hot
        length = _body_length(codings, lengths)
        if b"," in lengths and not codings:
            kept[length_at] = b"%b: %d" % (kept[length_at].partition(b":")[0], length)
    coding = None
    if codings:
        if length_at:
            del kept[length_at]
        if final and status != 204:  # RFC 9112 §6.1: never there
            coding = b"Transfer-Encoding: " + codings
            kept.append(coding)
    if names:
        drop_named(kept, set(names))
    if status == 101 and upgrade and upgrade_line is not None:
        kept += [b"Connection: Upgrade", upgrade_line]
    return AnswerHead(status, kept, length, coding, keep and sound, sound)


def _lines(head: bytes) -> list[bytes]:
    head = head.removesuffix(b"\r")
    lines = head.split(b"\r\n")
    if len(lines) != head.count(b"\n") + 1:
        lines = head.replace(b"\r\n", b"\n").split(b"\n")
    if b"\n " in head or b"\n\t" in head:
        return _unfold(lines)
    return lines


def _status_line(line: bytes) -> tuple[int, bool]:
    if line[:9] == b"HTTP/1.1 " and line[9:12].isdigit() and line[12:13] in b" " and line[11:]:
        return int(line[9:12]), True
    parts = line.split(None, 2)
    code = parts[1] if len(parts) > 1 else b""
    if line[:7] != b"HTTP/1." or len(parts[0]) != 8 or len(code) != 3 or not code.isdigit():
        raise BadAnswer("the answer begins with no HTTP/1 status line")
    return int(code), line[7:8] != b"0"


def _unfold(lines: list[bytes]) -> list[bytes]:
    parts: list[list[bytes]] = []
    for line in lines:
        if line[:1] in {b" ", b"\t"} and len(parts) > 1:
            parts[-1].append(line)
        else:
            parts.append([line])
    return [_joined(part) if len(part) > 1 else part[0] for part in parts]


def _joined(parts: list[bytes]) -> bytes:
    first, *middle, last = parts
    said = [stripped for part in middle if (stripped := part.strip(b" \t"))]
    return b" ".join([first.rstrip(b" \t"), *said, last.lstrip(b" \t")])


def _lenient_meaning(line: bytes, colon: int) -> tuple[int, bytes]:
    """The kind of a name that is not known yet: white space before the colon goes, and what is no
    field at all passes as it is.
    """
    if colon > 0 and line[colon - 1] in b" \t":
        bare = line[:colon].rstrip(b" \t")
        line, colon = bare + line[colon:], len(bare)
    try:
        return meaning(line, colon), line
    except NotAField:
        return PLAIN, line


def _body_length(codings: bytes, lengths: bytes) -> int:
    """Chunked before a length before the connection's end."""
    if codings:
        last = codings.lower().rpartition(b",")[2].strip(b" \t")
        return CHUNKED if last == b"chunked" else UNTIL_CLOSE
    if not lengths:
        return UNTIL_CLOSE
    if lengths.isdigit() and len(lengths) <= MAX_DIGITS:
        return int(lengths)
    values = {value.strip(b" \t") for value in lengths.split(b",")}
    value = values.pop()
    if values or not value.isdigit() or len(value) > MAX_DIGITS:
        raise BadAnswer("the answer's Content-Length is not one length")
    return int(value)
