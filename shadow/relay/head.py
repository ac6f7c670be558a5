"""Heads of messages, sans-IO: a request's is judged strictly, an answer's is read leniently.

Rule 1: a field that is relayed keeps its bytes: lines are kept or left out, never rewritten
        (an answer's folded line, or white space before its colon, is the one exception).
Rule 2: what a request's framing leaves open to two readings is refused; what an answer's leaves
        open is decided, and only without any reading is it refused.
Rule 3: each head is walked once; a field name is looked at once in the process's life, since
        clients send the same few names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

CHUNKED: Final = -1
"""A body length that the chunks tell."""
UNTIL_CLOSE: Final = -2
"""A body length that the connection's end tells (answers only)."""

PLAIN, HOST, LENGTH, CODING, CONNECTION, HOP, UPGRADE, EXPECT, MARK, CONSENT = range(10)

_MEANING: Final = {
    b"host": HOST,
    b"content-length": LENGTH,
    b"transfer-encoding": CODING,
    b"connection": CONNECTION,
    b"keep-alive": HOP,
    b"proxy-connection": HOP,
    b"te": HOP,
    b"http2-settings": HOP,
    b"upgrade": UPGRADE,
    b"expect": EXPECT,
    b"x-shadow-arm": MARK,
    b"x-shadow": CONSENT,
}
_NEVER_NAMED: Final = frozenset({b"host", b"content-length", b"transfer-encoding"})
"""`Connection: content-length` would take the framing away; such a nomination is not followed."""
_TOKEN: Final = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_TEXT: Final = bytes([9, *range(32, 127), *range(128, 256)])
_MAX_DIGITS: Final = 18
_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
_VERSION: Final = re.compile(rb"HTTP/\d\.\d")
_KNOWN_NAMES: Final = 4096
_known: dict[bytes, int] = {}


class BadRequest(Exception):
    """A request that is refused: status and one line of reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class BadAnswer(Exception):
    """An answer in which no framing can be found."""


@dataclass(slots=True)  # not frozen: a frozen one costs a microsecond more a request
class RequestHead:
    """A request as it goes on: `lines` without hop-by-hop fields, raw, the request line first."""

    method: bytes
    target: bytes
    http11: bool
    lines: list[bytes]
    length: int
    """Bytes of body, or CHUNKED."""
    keep: bool
    """The client's connection may serve another request."""
    upgrade: bool
    """It asks for a websocket."""
    expect: bool
    marked: bool
    """It is itself a mirror's (x-shadow-arm): never mirrored again."""
    opted_out: bool

    def encode(self, authority: bytes) -> bytes:
        """The head's bytes towards the primary; `authority` is for a client that named no host."""
        lines = self.lines
        if not self.http11:
            lines = [b"%b %b HTTP/1.1" % (self.method, self.target), *lines[1:]]
            if not any(line[:5].lower() == b"host:" for line in lines):
                lines.append(b"Host: " + authority)
        return b"\r\n".join(lines) + b"\r\n\r\n"


@dataclass(slots=True)
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


class RequestReader:
    """Finds and reads the head of one request after another in a client's bytes."""

    __slots__ = ("_buffer", "_forgave", "_limit", "_seen")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._seen = 0
        self._forgave = False

    @property
    def empty(self) -> bool:
        """No byte of a next request has come."""
        return not self._buffer

    def feed(self, data: bytes) -> tuple[RequestHead, bytes] | None:
        """The head and the bytes that follow it, or None while it is incomplete.

        Raises:
            BadRequest: it is refused; nothing more may be fed.
        """
        if self._buffer:
            self._buffer += data
            data = bytes(self._buffer) if b"\n" in data else b""
        if data[:2] == b"\r\n" and not self._forgave:
            self._forgave = True  # RFC 9112 §2.2: one empty line before a request is forgiven
            self._buffer = bytearray()
            self._seen = 0
            data = data[2:]
        end = data.find(b"\r\n\r\n")
        if end < 0:
            self._incomplete(data)
            return None
        self._buffer = bytearray()
        self._seen = 0
        self._forgave = False
        return parse_request(data[:end], self._limit), data[end + 4 :]

    def _incomplete(self, data: bytes) -> None:
        """Keep it, unless what is there is refused already."""
        if data and not self._buffer:
            self._buffer += data
        buffer = self._buffer
        start = max(self._seen - 1, 0)
        fresh = bytes(buffer[start:])
        if fresh.count(b"\n") != fresh.count(b"\r\n") + (start > 0 and fresh[:1] == b"\n"):
            raise BadRequest(400, "a line ends in a bare LF")
        self._seen = len(buffer)
        if len(buffer) > self._limit:
            _too_large(bytes(buffer).rstrip(b"\r\n"), self._limit)


def _too_large(head: bytes, limit: int) -> None:
    line = head.find(b"\r\n")
    if line > limit or (line < 0 and len(head) > limit):
        raise BadRequest(414, f"the request line is longer than {limit} bytes")
    if line >= 0 and len(head) - line - 2 > limit:
        raise BadRequest(431, f"the header fields are longer than {limit} bytes")


def parse_request(head: bytes, limit: int = 64 * 1024) -> RequestHead:
    """Read a request's head, without the empty line that ends it. One pass; long for that reason.

    Raises:
        BadRequest: anything that could be read in two ways, or is longer than `limit` bytes.
    """
    if len(head) > limit:
        _too_large(head, limit)
    lines = head.split(b"\r\n")
    if head.translate(None, _TEXT) != b"\r\n" * (len(lines) - 1):
        raise BadRequest(400, "a control character, or a bare CR or LF, in the head")
    method, target, http11 = _request_line(lines[0])
    kept = [lines[0]]
    hosts = 0
    length: bytes | None = None
    coding: bytes | None = None
    connection = b""
    upgrade: bytes | None = None
    expect = marked = opted_out = False
    for line in lines[1:]:
        colon = line.find(b":")
        kind = _known.get(line[:colon], -1) if colon > 0 else -1
        if kind < 0:
            kind = _meaning(line, colon)
        if kind == PLAIN:
            kept.append(line)
            continue
        value = line[colon + 1 :].strip(b" \t")
        if kind == HOST:
            hosts += 1
            kept.append(line)
        elif kind == LENGTH:
            value = line[colon + 1 :].strip(b" ")  # parsers differ on a tab here: refused
            if length is not None or not value.isdigit() or len(value) > _MAX_DIGITS:
                raise BadRequest(400, "Content-Length is repeated or not a length")
            length = value
            kept.append(line)
        elif kind == CODING:
            value = line[colon + 1 :].strip(b" ")
            if coding is not None or value.lower() != b"chunked" or not http11:
                raise BadRequest(400, "Transfer-Encoding is not a lone chunked")
            coding = value
            kept.append(line)
        elif kind == CONNECTION:
            connection = connection + b"," + value if connection else value
        elif kind == UPGRADE:
            upgrade = value if upgrade is None else b""
        elif kind != HOP:
            kept.append(line)
            expect = expect or (kind == EXPECT and value.lower() == b"100-continue")
            marked = marked or kind == MARK
            opted_out = opted_out or (kind == CONSENT and value.lower() == b"off")
    if hosts != 1 and (hosts > 1 or http11):
        raise BadRequest(400, "Host is missing or repeated")
    if length is not None and coding is not None:
        raise BadRequest(400, "Content-Length beside Transfer-Encoding")
    body = CHUNKED if coding is not None else int(length or 0)
    keep = http11
    websocket = False
    if connection:
        names = {name.strip(b" \t") for name in connection.lower().split(b",")}
        keep = keep and b"close" not in names
        if upgrade is not None and b"upgrade" in names:
            websocket = upgrade.lower() == b"websocket" and method == b"GET" and not body and http11
        _drop_named(kept, names)
        if websocket:
            kept += [b"Connection: Upgrade", b"Upgrade: " + (upgrade or b"")]
    return RequestHead(
        method, target, http11, kept, body, keep, websocket, expect, marked, opted_out
    )


def _request_line(line: bytes) -> tuple[bytes, bytes, bool]:
    parts = line.split(b" ")
    if len(parts) != 3 or not parts[0] or not parts[1] or b"\t" in line:
        raise BadRequest(400, "the request line is not METHOD TARGET VERSION")
    method, target, version = parts
    if method.translate(None, _TOKEN):
        raise BadRequest(400, "the method is not a token")
    if version == b"HTTP/1.1":
        return method, target, True
    if version == b"HTTP/1.0":
        return method, target, False
    if _VERSION.fullmatch(version):
        raise BadRequest(505, "only HTTP/1.0 and HTTP/1.1 are spoken here")
    raise BadRequest(400, "the request line ends in no HTTP version")


def _meaning(line: bytes, colon: int) -> int:
    """What a field name means to the relay; remembered by its spelling."""
    name = line[:colon] if colon > 0 else b""
    if not name or name.translate(None, _TOKEN):
        raise BadRequest(400, "a header line is folded, or its name is not a token")
    kind = _MEANING.get(name.lower(), PLAIN)
    if len(_known) < _KNOWN_NAMES:
        _known[name] = kind
    return kind


def _drop_named(lines: list[bytes], named: set[bytes]) -> None:
    """Take away, in place, the fields that Connection names."""
    named -= _NEVER_NAMED
    named -= {b"close", b"keep-alive", b"upgrade", b""}
    if named:
        lines[1:] = [
            line for line in lines[1:] if line.partition(b":")[0].strip().lower() not in named
        ]


def check_trailer(line: bytes) -> None:
    """Judge one trailer line of a request, without its CRLF.

    Raises:
        BadRequest: malformed, or a field that would change how the message is read.
    """
    colon = line.find(b":")
    if line.translate(None, _TEXT):
        raise BadRequest(400, "a control character in a trailer")
    if _meaning(line, colon) in {HOST, LENGTH, CODING, CONNECTION, UPGRADE}:
        raise BadRequest(400, "a trailer field that belongs into the head")


def find_answer_head(buffer: bytes) -> tuple[int, int] | None:
    """(end of the head, start of what follows), or None while the empty line has not come."""
    match = _BLANK_LINE.search(buffer)
    return None if match is None else (match.start(), match.end())


def parse_answer(head: bytes, *, bodyless: bool, upgrade: bool = False) -> AnswerHead:
    """Read an answer's head, without the line end and the empty line behind it.

    Args:
        head: the bytes; bare LF is taken for a line end, a folded line is joined by one space.
        bodyless: it answers a HEAD.
        upgrade: the request asked for a websocket, so a 101 keeps its Upgrade field.

    Raises:
        BadAnswer: no framing can be found.
    """
    lines = head.removesuffix(b"\r").split(b"\r\n")
    if len(lines) != head.count(b"\n") + 1:
        lines = head.removesuffix(b"\r").replace(b"\r\n", b"\n").split(b"\n")
    first = lines[0]
    status, http11 = _status_line(first)
    kept = [first if http11 else b"HTTP/1.1" + first[8:]]
    lengths: set[bytes] = set()
    coding: bytes | None = None
    connection = b""
    codings = b""
    upgrade_line: bytes | None = None
    length_at = -1
    if b"\n " in head or b"\n\t" in head:
        lines = _unfold(lines)
    for line in lines[1:]:
        colon = line.find(b":")
        name = line[:colon] if colon > 0 else line
        kind = _known.get(name, -1)
        if kind < 0:
            kind, line = _lenient_meaning(line, name, colon)  # noqa: PLW2901 white space mended
        if kind in {PLAIN, HOST, EXPECT, MARK, CONSENT}:
            kept.append(line)
            continue
        value = line.partition(b":")[2].strip(b" \t")
        if kind == LENGTH:
            lengths.update(part.strip(b" \t") for part in value.split(b","))
            if length_at < 0:
                length_at = len(kept)
                kept.append(line)
        elif kind == CODING:
            codings = codings + b"," + value if codings else value
            coding = line if coding is None else b"Transfer-Encoding: " + codings
        elif kind == CONNECTION:
            connection = connection + b"," + value if connection else value
        elif kind == UPGRADE:
            upgrade_line = line
    names = {n.strip(b" \t") for n in connection.lower().split(b",")} if connection else set()
    keep = b"close" not in names and (http11 or b"keep-alive" in names)
    sound = not (codings and lengths)
    empty = bodyless or status < 200 or status in {204, 304}
    if empty:
        length = 0
    elif codings:
        last = codings.lower().rpartition(b",")[2].strip(b" \t")
        length = CHUNKED if last == b"chunked" else UNTIL_CLOSE
    elif lengths:
        length = _one_length(lengths)
        if b"," in kept[length_at]:
            kept[length_at] = b"%b: %d" % (kept[length_at].partition(b":")[0], length)
    else:
        length = UNTIL_CLOSE
    if coding is not None:
        if length_at >= 0:
            del kept[length_at]
        if status < 200 or status == 204:  # RFC 9112 §6.1: never there
            coding = None
        else:
            kept.append(coding)
    if names:
        _drop_named(kept, names)
    if status == 101 and upgrade and upgrade_line is not None:
        kept += [b"Connection: Upgrade", upgrade_line]
    return AnswerHead(status, kept, length, coding, keep and sound, sound)


def _status_line(line: bytes) -> tuple[int, bool]:
    parts = line.split(None, 2)
    code = parts[1] if len(parts) > 1 else b""
    if line[:7] != b"HTTP/1." or len(parts[0]) != 8 or len(code) != 3 or not code.isdigit():
        raise BadAnswer("the answer begins with no HTTP/1 status line")
    return int(code), line[7:8] != b"0"


def _unfold(lines: list[bytes]) -> list[bytes]:
    joined: list[bytes] = []
    for line in lines:
        if line[:1] in {b" ", b"\t"} and len(joined) > 1:
            joined[-1] = joined[-1].rstrip(b" \t") + b" " + line.lstrip(b" \t")
        else:
            joined.append(line)
    return joined


def _lenient_meaning(line: bytes, name: bytes, colon: int) -> tuple[int, bytes]:
    """As `_meaning`, for an answer: white space before the colon goes, the rest may pass."""
    bare = name.rstrip(b" \t")
    if colon > 0 and bare != name:
        line = bare + line[colon:]
    try:
        return _meaning(line, len(bare) if colon > 0 else -1), line
    except BadRequest:
        return PLAIN, line


def _one_length(lengths: set[bytes]) -> int:
    numbers = {int(n) for n in lengths if n.isdigit() and len(n) <= _MAX_DIGITS}
    if len(numbers) != 1 or len(lengths) != 1:
        raise BadAnswer("the answer's Content-Length is not one length")
    return numbers.pop()
