"""Heads of requests, sans-IO and judged strictly: what could be read in two ways is refused.

A field that goes on keeps its bytes: lines are kept or left out, never rewritten. Each head is
walked once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from shadow.relay.fields import (
    CHUNKED,
    CODED,
    CODING,
    CONNECTION,
    CONSENT,
    EXPECT,
    HOP,
    HOST,
    LENGTH,
    MARK,
    MAX_DIGITS,
    PLAIN,
    TEXT,
    TOKEN,
    UPGRADE,
    NotAField,
    drop_named,
    known,
    meaning,
    options,
)

_NOTHING: Final[frozenset[bytes]] = frozenset()
_VERSION: Final = re.compile(rb"HTTP/\d\.\d")


class BadRequest(Exception):
    """A request that is refused: status and one line of reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


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
    coded: bool = False
    """It has a Content-Encoding."""
    named: frozenset[bytes] = frozenset()
    """What Connection said beside close, in small letters: fields that are not among `lines`."""

    def encode(self, authority: bytes) -> bytes:
        """The head's bytes towards the primary; `authority` is for a client that named no host."""
        lines = self.lines
        if not self.http11:
            lines = [b"%b %b HTTP/1.1" % (self.method, self.target), *lines[1:]]
            if not any(line[:5].lower() == b"host:" for line in lines):
                lines.append(b"Host: " + authority)
        return b"\r\n".join(lines) + b"\r\n\r\n"


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


def parse_request(head: bytes, limit: int = 64 * 1024) -> RequestHead:  # noqa: C901, PLR0912, PLR0915 one pass
    """Read a request's head, without the empty line that ends it.

    Raises:
        BadRequest: anything that could be read in two ways, or fields longer than `limit` bytes.
    """
    if len(head) > limit:
        _too_large(head, limit)
    lines = head.split(b"\r\n")
    if head.translate(None, TEXT) != b"\r\n" * (len(lines) - 1):
        raise BadRequest(400, "a control character, or a bare CR or LF, in the head")
    method, target, http11 = _request_line(lines[0])
    kept = [lines[0]]
    hosts = 0
    length = coding = upgrade = None
    connection = b""
    expect = marked = opted_out = coded = False
    for line in lines[1:]:
        colon = line.find(b":")
        kind = known.get(line[:colon], -1) if colon > 0 else -1
        if kind < 0:
            kind = _meaning(line, colon)
        if kind == PLAIN:
            kept.append(line)
            continue
        value = line[colon + 1 :].strip(b" ")  # parsers differ on a tab beside a length: refused
        if kind == HOST:
            hosts += 1
            kept.append(line)
        elif kind == LENGTH:
            if length is not None or not value.isdigit() or len(value) > MAX_DIGITS:
                raise BadRequest(400, "Content-Length is repeated or not a length")
            length = value
            kept.append(line)
        elif kind == CODING:
            if coding is not None or value.lower() != b"chunked" or not http11:
                raise BadRequest(400, "Transfer-Encoding is not a lone chunked")
            coding = value
            kept.append(line)
        elif kind == CONNECTION:
            connection = connection + b"," + value if connection else value
        elif kind == UPGRADE:
            upgrade = value.strip(b"\t ") if upgrade is None else b""
        elif kind != HOP:
            kept.append(line)
            value = value.strip(b"\t ").lower()
            expect = expect or (kind == EXPECT and value == b"100-continue")
            marked = marked or kind == MARK
            opted_out = opted_out or (kind == CONSENT and value != b"on")  # odd: no consent
            coded = coded or kind == CODED
    if hosts != 1 and (hosts > 1 or http11):
        raise BadRequest(400, "Host is missing or repeated")
    if length is not None and coding is not None:
        raise BadRequest(400, "Content-Length beside Transfer-Encoding")
    body = CHUNKED if coding is not None else int(length or 0)
    keep = http11
    websocket = False
    named: frozenset[bytes] = _NOTHING
    if connection and connection.lower() != b"keep-alive":
        names = options(connection)
        keep = keep and b"close" not in names
        if upgrade is not None and b"upgrade" in names and http11 and method == b"GET":
            websocket = upgrade.lower() == b"websocket" and body == 0
        drop_named(kept, names)
        named = frozenset(names)
        if websocket:
            kept += [b"Connection: Upgrade", b"Upgrade: " + (upgrade or b"")]
    return RequestHead(
        method,
        target,
        http11,
        kept,
        body,
        keep,
        websocket,
        expect,
        marked,
        opted_out,
        coded,
        named,
    )


def _meaning(line: bytes, colon: int) -> int:
    try:
        return meaning(line, colon)
    except NotAField as error:
        raise BadRequest(400, str(error)) from None


def _request_line(line: bytes) -> tuple[bytes, bytes, bool]:
    parts = line.split(b" ")
    if len(parts) != 3 or not parts[0] or not parts[1] or b"\t" in line:
        raise BadRequest(400, "the request line is not METHOD TARGET VERSION")
    method, target, version = parts
    if method.translate(None, TOKEN):
        raise BadRequest(400, "the method is not a token")
    if version == b"HTTP/1.1":
        return method, target, True
    if version == b"HTTP/1.0":
        return method, target, False
    if _VERSION.fullmatch(version):
        raise BadRequest(505, "only HTTP/1.0 and HTTP/1.1 are spoken here")
    raise BadRequest(400, "the request line ends in no HTTP version")
