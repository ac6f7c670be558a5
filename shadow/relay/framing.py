"""Where a body ends, sans-IO: bytes pass as they came, and this follows them.

`feed(data, pieces, at)` takes what arrived, from `at` on, appends the body's bytes to `pieces`
(transfer decoding undone) and returns where it stopped in `data`: at its end; at the message's end,
where `done` says so; else where the work of one call had its bound, and it is to be called again
from there. Splitting the data differently never changes the sum of pieces, the end, or
whether it is refused.
"""

from __future__ import annotations

import re
import sys
from typing import Final, Protocol

from shadow.relay.fields import (
    CHUNKED,
    CODING,
    CONNECTION,
    HOST,
    LENGTH,
    TEXT,
    UNTIL_CLOSE,
    UPGRADE,
    NotAField,
    meaning,
)

_HEX: Final = b"0123456789abcdefABCDEF"
_MAX_HEX: Final = 15
_HEAD_ONLY: Final = frozenset({HOST, LENGTH, CODING, CONNECTION, UPGRADE})
_MAX_SIZE_LINE: Final = 4096
SLICE_CHUNKS: Final = 128
"""So many chunks of a body at a time, about 0.15 ms."""
_LINE_BYTES: Final = 32
"""What a trailer's line counts beside its bytes, so that they are few."""
_TCHAR: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PLAIN_SIZE: Final = re.compile(rb"[0-9a-fA-F]{1,5}\r\n")
_sizes: dict[bytes, int] = {}
"""Plain size lines, which both ways of reading read alike; streams repeat the same few."""
_KNOWN_SIZES: Final = 4096
_EXTENSIONS: Final = re.compile(
    rb"(?:;" + _TCHAR + rb"(?:=(?:" + _TCHAR + rb'|"[\x20\x21\x23-\x5b\x5d-\x7e]*"))?)+'
)


class FramingError(Exception):
    """The body breaks its own framing."""


class Framing(Protocol):
    """Follows one body to its end."""

    done: bool

    def feed(self, data: bytes, pieces: list[bytes], at: int = 0) -> int:
        """Where it stopped in `data`; the decoded bytes from `at` to there go to `pieces`.

        Raises:
            FramingError: the bytes are not what the framing says.
        """


class Length:
    """Content-Length: `left` bytes more."""

    __slots__ = ("done", "left")

    def __init__(self, length: int) -> None:
        self.left = length
        self.done = length == 0

    def feed(self, data: bytes, pieces: list[bytes], at: int = 0) -> int:
        """See `Framing`."""
        size = len(data) - at
        if size < self.left:
            self.left -= size
            pieces.append(data[at:] if at else data)
            return at + size
        size, self.left = self.left, 0
        self.done = True
        if size:
            pieces.append(data if size == len(data) else data[at : at + size])
        return at + size


class UntilClose:
    """No length: everything until the connection ends."""

    __slots__ = ("done",)

    def __init__(self) -> None:
        self.done = False

    def feed(self, data: bytes, pieces: list[bytes], at: int = 0) -> int:
        """See `Framing`."""
        pieces.append(data[at:] if at else data)
        return len(data)


_SIZE, _DATA_END, _TRAILER = range(3)


class Chunked:
    """Transfer-Encoding: chunked, strictly for requests, leniently for answers."""

    __slots__ = ("_left", "_line", "_most", "_room", "_state", "_strict", "done")

    def __init__(self, *, strict: bool, trailer_bytes: int, chunks: int = 0) -> None:
        """Follow one body; `chunks` is how many are looked at in one call, 0: all."""
        self.done = False
        self._strict = strict
        self._room = trailer_bytes
        self._left = 0
        self._line = b""
        self._state = _SIZE
        self._most = chunks or sys.maxsize

    def feed(self, data: bytes, pieces: list[bytes], at: int = 0) -> int:  # noqa: C901, PLR0912 one loop
        """See `Framing`. It runs at every arrival."""
        size = len(data)
        while at < size:
            left = self._left
            if left:
                take = min(left, size - at)
                pieces.append(data[at : at + take])
                self._left = left - take
                at += take
                if len(pieces) >= self._most:
                    break
                continue
            end = data.find(b"\n", at) + 1
            if not end:
                self._keep(data[at:])
                return size
            line = self._line + data[at:end] if self._line else data[at:end]
            self._line = b""
            at = end
            if self._state == _SIZE and (left := _sizes.get(line, 0)):
                end += left
                if data[end : end + 2] == b"\r\n":  # as a rule a chunk comes whole
                    pieces.append(data[at:end])
                    at = end + 2
                    if len(pieces) >= self._most:
                        break
                else:
                    self._left = left
                    self._state = _DATA_END
            elif self._state == _DATA_END:
                self._state = _SIZE
                if line != b"\r\n" and (self._strict or line != b"\n"):
                    raise FramingError("a chunk does not end where its size says")
            elif self._state == _SIZE:
                self._left = self._size(line)
                self._state = _DATA_END if self._left else _TRAILER
            elif self._trailer(line):
                self.done = True
                break
            else:
                pieces.append(b"")  # of the body nothing, of the work as much as a chunk
                if len(pieces) >= self._most:
                    break
        return at

    def _keep(self, rest: bytes) -> None:
        """An unfinished line; refused as early as its bytes allow, so that it cannot grow."""
        line = self._line = self._line + rest
        if self._state == _DATA_END and line != b"\r":
            raise FramingError("a chunk does not end where its size says")
        if len(line) > (self._room if self._state == _TRAILER else _MAX_SIZE_LINE):
            raise FramingError("a line of the chunked framing is too long")

    def _size(self, line: bytes) -> int:
        digits = line[:-2]
        if len(line) > _MAX_SIZE_LINE:
            raise FramingError("a line of the chunked framing is too long")
        if self._strict:
            if line[-2:] != b"\r\n":
                raise FramingError("a chunk size ends in a bare LF")
            if b";" in digits:
                digits, extensions = digits[: digits.find(b";")], digits[digits.find(b";") :]
                if not _EXTENSIONS.fullmatch(extensions):
                    raise FramingError("a chunk extension is malformed")
        else:
            digits = line.partition(b";")[0].strip(b" \t\r\n")
        if not digits or digits.translate(None, _HEX) or len(digits.lstrip(b"0")) > _MAX_HEX:
            raise FramingError("a chunk size is not a size")
        if self._strict and len(digits) > _MAX_HEX + 1:
            raise FramingError("a chunk size is not a size")
        size = int(digits, 16)
        if size and len(_sizes) < _KNOWN_SIZES and _PLAIN_SIZE.fullmatch(line):
            _sizes[line] = size
        return size

    def _trailer(self, line: bytes) -> bool:
        """Whether this line ends the message."""
        if line == b"\r\n" or (line == b"\n" and not self._strict):
            return True
        self._room -= len(line) if self._strict else len(line) + _LINE_BYTES
        if self._room < 0:
            raise FramingError("the trailers are too long")
        if self._strict:
            _judge_trailer(line)
        return False


def _judge_trailer(line: bytes) -> None:
    """A request's trailer: a field, and none that would change how the message is read."""
    if line[-2:] != b"\r\n" or line[:-2].translate(None, TEXT):
        raise FramingError("a trailer holds a control character or ends in a bare LF")
    try:
        kind = meaning(line, line.find(b":"))
    except NotAField as error:
        raise FramingError(str(error)) from None
    if kind in _HEAD_ONLY:
        raise FramingError("a trailer field that belongs into the head")


def request_framing(length: int, trailer_bytes: int) -> Framing | None:
    """How a request's body is followed; None when there is none."""
    if length == CHUNKED:
        return Chunked(strict=True, trailer_bytes=trailer_bytes, chunks=SLICE_CHUNKS)
    return Length(length) if length else None


def answer_framing(length: int, trailer_bytes: int) -> Framing:
    """How an answer's body is followed."""
    if length == CHUNKED:
        return Chunked(strict=False, trailer_bytes=trailer_bytes, chunks=SLICE_CHUNKS)
    return UntilClose() if length == UNTIL_CLOSE else Length(length)
