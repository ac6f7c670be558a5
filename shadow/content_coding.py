"""Undo a Content-Encoding read by read: an event's time stays that of the read that ended it.

Coded bytes are fed in the portions in which they arrived, and whatever a portion lets out gets
that portion's mark. What comes out is bounded: a bomb is cut, and said to be.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import brotli

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MOST_PLAIN_BYTES = 64 * 1024 * 1024
"""What a body may unfold to; the proxy keeps 8 MiB of an answer, coded or not."""
MOST_RATIO = 250
ANY_RATIO_BYTES = 8 * 1024 * 1024
"""A body may unfold to this many bytes whatever its own size, beyond it to `MOST_RATIO` times that.
Streams of one token over and over, compressed as a whole, come to 80 times."""
_MOST_MEMBERS = 100_000
_PORTION_BYTES = 16 * 1024  # what stands behind a member is copied: little, however many there are
_MOST_CODINGS = 3
_IDENTITY = ("", "identity")
_MEMBERS = {"gzip": b"\x1f\x8b", "x-gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}
"""How another member begins; deflate has none."""
DAMAGE = (zlib.error, zstd.ZstdError, brotli.error)
"""What the three libraries raise."""
_RAW_DEFLATE, _ZLIB, _GZIP = -15, 15, 31

Marks = Sequence[tuple[int, int]]


class CodingError(Exception):
    """The bytes are not what their Content-Encoding says: whoever sent them is to blame."""


class CodingUnread(Exception):
    """We cannot or will not undo it: an unknown coding, or more than the bound."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A body without its coding; `marks` count its own bytes."""

    body: bytes
    marks: Marks


class _Inflater(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _Unbrotli:
    """brotli's decompressor with zlib's words; it goes past `max_length` by a buffer at most."""

    unused_data = b""

    def __init__(self) -> None:
        self._stream = brotli.Decompressor()

    @property
    def eof(self) -> bool:
        return bool(self._stream.is_finished())

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        return bytes(self._stream.process(data, output_buffer_limit=max_length))


def undo(coding: str, body: bytes, marks: Marks, most: int = MOST_PLAIN_BYTES) -> Plain:
    """`body` as it was before `coding`, a Content-Encoding field's value such as "gzip" or "".

    A body that ends early gives what it holds: whether an answer is whole, its transport says.

    Raises:
        CodingError: the bytes are damaged.
        CodingUnread: an unknown coding, or more than `most` bytes, or more than such a body may
            unfold to (`MOST_RATIO`).
    """
    names = [name for part in coding.split(",") if (name := part.strip().lower()) not in _IDENTITY]
    if len(names) > _MOST_CODINGS:
        raise CodingUnread(f"content coding {coding!r}: more than {_MOST_CODINGS} layers")
    most = min(most, max(ANY_RATIO_BYTES, MOST_RATIO * len(body)))
    plain = Plain(body, marks)
    for name in reversed(names):
        plain = _undo_one(name, plain, most)
    return plain


def _undo_one(name: str, coded: Plain, most: int) -> Plain:
    inflater: _Inflater | None = None
    out: list[bytes] = []
    marks: list[tuple[int, int]] = []
    size = begin = members = 0
    for elapsed_ns, end in _portions(coded):
        while begin < end and begin < len(coded.body):
            portion = coded.body[begin : min(end, begin + _PORTION_BYTES)]
            begin += len(portion)
            while portion:
                if inflater is not None and inflater.eof:
                    if not _begins_member(name, portion):
                        break  # what stands behind the last member is nobody's
                    inflater, members = None, members + 1
                    if members > _MOST_MEMBERS:
                        raise CodingUnread(f"the {name} body has over {_MOST_MEMBERS} members")
                inflater = inflater or _inflater(name, portion)
                piece, portion = _inflate(name, inflater, portion, most - size)
                out.append(piece)
                size += len(piece)
        marks.append((elapsed_ns, size))
    return Plain(b"".join(out), marks)


def _portions(coded: Plain) -> list[tuple[int, int]]:
    marks = list(coded.marks)
    if not marks or marks[-1][1] < len(coded.body):
        marks.append((marks[-1][0] if marks else 0, len(coded.body)))
    return marks


def _begins_member(name: str, portion: bytes) -> bool:
    """Whether another member begins here, as far as the portion shows."""
    start = _MEMBERS.get(name)
    return start is not None and portion[: len(start)] == start[: len(portion)]


def _inflate(name: str, inflater: _Inflater, portion: bytes, room: int) -> tuple[bytes, bytes]:
    try:
        piece = inflater.decompress(portion, room + 1)
    except DAMAGE as error:
        raise CodingError(f"damaged {name}: {error}") from None
    if len(piece) > room:
        raise CodingUnread(f"the {name} body unfolds beyond its bound")
    return piece, inflater.unused_data if inflater.eof else b""


def _inflater(name: str, first: bytes) -> _Inflater:
    if name in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(window_of(name, first))
    if name == "br":
        return _Unbrotli()
    if name == "zstd":
        return zstd.ZstdDecompressor()
    raise CodingUnread(f"content coding {name!r} cannot be read")


def window_of(name: str, first: bytes | bytearray) -> int:
    """The `wbits` of zlib for gzip or deflate, by how the coded bytes begin.

    RFC 9110's deflate is RFC 1950 (method 8, two bytes that 31 divides); some send RFC 1951 bare.
    """
    if name != "deflate":
        return _GZIP
    return _ZLIB if first and _has_zlib_head(first) else _RAW_DEFLATE


def _has_zlib_head(first: bytes | bytearray) -> bool:
    return first[0] & 0x0F == 8 and (len(first) < 2 or (first[0] << 8 | first[1]) % 31 == 0)
