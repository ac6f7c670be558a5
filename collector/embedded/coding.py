"""Content codings, piece by piece: what a request's body comes in, what an answer goes out in."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from functools import cache
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any, Protocol, cast

from collector.embedded.errors import UNKNOWN_COMPRESSION_METHOD, said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
_PIECE_BYTES = 1 << 20
CANNOT_DECOMPRESS = 271


class Packer(Protocol):
    """Turns pieces of a body into pieces of its coded form."""

    def compress(self, data: bytes, /) -> bytes: ...  # noqa: D102 - the class says it
    def flush(self) -> bytes: ...  # noqa: D102 - as above


class _Lz4Packer:
    """lz4's frame has to be begun by hand."""

    def __init__(self) -> None:
        self._frame = import_module("lz4.frame").LZ4FrameCompressor()
        self._begun = False

    def compress(self, data: bytes, /) -> bytes:
        begin: bytes = b"" if self._begun else self._frame.begin()
        self._begun = True
        packed: bytes = self._frame.compress(data)
        return begin + packed

    def flush(self) -> bytes:
        begin: bytes = b"" if self._begun else self._frame.begin()
        end: bytes = self._frame.flush()
        return begin + end


class _BrotliPacker:
    def __init__(self) -> None:
        self._stream = import_module("brotli").Compressor(quality=1)

    def compress(self, data: bytes, /) -> bytes:
        packed: bytes = self._stream.process(data)
        return packed

    def flush(self) -> bytes:
        end: bytes = self._stream.finish()
        return end


# Cheapest first: this interface stands on loopback.
_PACKERS: dict[str, tuple[str, Callable[[], Packer]]] = {
    "lz4": ("lz4.frame", _Lz4Packer),
    "zstd": (_ZSTD, lambda: import_module(_ZSTD).ZstdCompressor(1)),
    "gzip": ("zlib", lambda: zlib.compressobj(1, wbits=31)),
    "deflate": ("zlib", lambda: zlib.compressobj(1)),
    "br": ("brotli", _BrotliPacker),
}


def chosen(accept_encoding: str) -> str | None:
    """The coding to answer in, of those that the field names and that are at hand."""
    wanted = {}
    for part in accept_encoding.lower().split(","):
        name, _, weight = part.strip().partition(";")
        wanted[name.strip()] = weight.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    usable = (name for name in _PACKERS if wanted.get(name) and _at_hand(_PACKERS[name][0]))
    return next(usable, None)


def packed(pieces: Iterator[bytes], coding: str | None) -> Iterator[bytes]:
    """The pieces in a coding of `chosen`; as they are for None."""
    if coding is None:
        yield from pieces
        return
    packer = _PACKERS[coding][1]()
    for piece in pieces:
        if coded := packer.compress(piece):
            yield coded
    if coded := packer.flush():
        yield coded


class Unpacked:
    """A body without its coding; `read` needs no more memory than it gives back.

    Clients code block by block, so one coded stream may follow another to the body's end.

    Raises:
        EngineError: a coding that is not known or not at hand; on reading, broken data.
    """

    def __init__(self, body: IO[bytes], coding: str) -> None:
        self._plain = _opened(body, coding.strip().lower())

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; empty at the end."""
        try:
            return self._plain.read(size)
        except Exception as error:  # each coding has exceptions of its own
            message = f"Cannot decompress the request's body: {error}"
            raise said(CANNOT_DECOMPRESS, message, "CANNOT_DECOMPRESS") from error


def _opened(body: IO[bytes], coding: str) -> IO[bytes]:
    if coding in {"", "identity"}:
        return body
    if coding in {"gzip", "x-gzip"}:
        return cast("IO[bytes]", gzip.GzipFile(fileobj=body, mode="rb"))
    if coding == "deflate":
        return io.BufferedReader(_Inflated(body))
    if coding == "zstd" and _at_hand(_ZSTD):
        return cast("IO[bytes]", import_module(_ZSTD).ZstdFile(body))
    if coding == "lz4" and _at_hand("lz4.frame"):
        return cast("IO[bytes]", import_module("lz4.frame").LZ4FrameFile(body))
    if coding == "br" and _at_hand("brotli"):
        return io.BufferedReader(_Unbrotlied(body))
    message = f"Unknown compression method: {coding}"
    raise said(UNKNOWN_COMPRESSION_METHOD, message, "UNKNOWN_COMPRESSION_METHOD")


class _Inflated(io.RawIOBase):
    """zlib's stream as a file, which the standard library has for gzip alone."""

    def __init__(self, body: IO[bytes]) -> None:
        self._body = body
        self._stream = zlib.decompressobj()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._stream.eof:
            coded = self._stream.unconsumed_tail or self._body.read(_PIECE_BYTES)
            piece = self._stream.decompress(coded, len(buffer))
            if piece:
                buffer[: len(piece)] = piece
                return len(piece)
            if not coded:
                raise EOFError("it ends too soon")
        return 0


class _Unbrotlied(io.RawIOBase):
    """A brotli stream as a file: of a small body that unfolds to a huge one little more is held
    than is read.
    """

    def __init__(self, body: IO[bytes]) -> None:
        self._body = body
        self._stream = import_module("brotli").Decompressor()
        self._rest = b""
        """Its limit is a wish: a block more may come."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest and not self._stream.is_finished():
            wants = self._stream.can_accept_more_data()
            coded = self._body.read(_PIECE_BYTES) if wants else b""
            self._rest = self._stream.process(coded, output_buffer_limit=len(buffer))
            if wants and not coded and not self._rest:
                raise EOFError("it ends too soon")
        piece, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(piece)] = piece
        return len(piece)


@cache
def _at_hand(module: str) -> bool:
    try:
        import_module(module)
    except ImportError:
        return False
    return True
