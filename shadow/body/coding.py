"""Undo a request's Content-Encoding, in steps and within a bound."""

from __future__ import annotations

import sys
import zlib
from _thread import start_new_thread
from collections.abc import Callable
from time import sleep
from typing import Final, Protocol

import brotli

from shadow.body.scan import Steps, TooMuch
from shadow.content_coding import DAMAGE, window_of

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_IN_BYTES: Final = 8 * 1024
_OUT_BYTES: Final = 32 * 1024
"""What a step feeds and gets: well under a millisecond for either."""
_JOINED_BYTES: Final = 1024 * 1024
"""From here on the interpreter is let go of while pieces are joined; less takes 0.2 ms."""
_MOST_CODINGS: Final = 2
_MOST_MEMBERS: Final = 1000


class Encoded(ValueError):
    """A coding that is unknown, or not what the body is in."""


class _Inflater(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def inflate(self, data: bytes) -> Steps[tuple[bytes, bytes | None]]:
        """(at most about `_OUT_BYTES`, what to call with next; None: more of the body)."""


class _Deflate:
    def __init__(self, window: int) -> None:
        self._stream = zlib.decompressobj(window)

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def inflate(self, data: bytes) -> Steps[tuple[bytes, bytes | None]]:
        yield from ()
        piece = self._stream.decompress(data, _OUT_BYTES)
        more = self._stream.unconsumed_tail
        return piece, more if more or len(piece) >= _OUT_BYTES else None


class _Zstd:
    def __init__(self) -> None:
        self._stream = zstd.ZstdDecompressor(
            options={zstd.DecompressionParameter.window_log_max: 23}
        )

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def inflate(self, data: bytes) -> Steps[tuple[bytes, bytes | None]]:
        yield from ()
        piece = self._stream.decompress(data, _OUT_BYTES)
        return piece, None if self._stream.needs_input or self._stream.eof else b""


class _Brotli:
    """In a thread of its own: its decoder fills a window of up to 16 MiB before it gives any of
    it, 30 ms for a body of 50 bytes. It lets go of the interpreter meanwhile.
    """

    unused_data = b""

    def __init__(self) -> None:
        self._stream = brotli.Decompressor()

    @property
    def eof(self) -> bool:
        return bool(self._stream.is_finished())

    def inflate(self, data: bytes) -> Steps[tuple[bytes, bytes | None]]:
        piece = yield from _elsewhere(
            lambda: bytes(self._stream.process(data, output_buffer_limit=_OUT_BYTES))
        )
        held_back = len(piece) >= _OUT_BYTES or not self._stream.can_accept_more_data()
        return piece, b"" if held_back else None


def _elsewhere(work: Callable[[], bytes]) -> Steps[bytes]:
    """What work says, done by a thread that lets go of the interpreter for most of it: each step
    only looks whether it is done.
    """
    done: list[bytes | Exception] = []

    def run() -> None:
        try:
            done.append(work())
        except Exception as error:  # noqa: BLE001 raised where it is waited for
            done.append(error)

    start_new_thread(run, ())
    while not done:
        sleep(0)  # the thread needs the interpreter for a moment
        yield
    if isinstance(done[0], Exception):
        raise done[0]
    return done[0]


def undone(codings: list[bytes], body: bytes | bytearray, most: int) -> Steps[bytes | bytearray]:
    """The body as it was before `codings`, the values of its Content-Encoding fields.

    Raises:
        Encoded: a coding is unknown, or the body is not in it, or ends early.
        TooMuch: it unfolds to more than `most` bytes.
    """
    listed = b",".join(codings).lower().split(b",")
    names = [name for part in listed if (name := part.strip()) not in (b"", b"identity")]
    if len(names) > _MOST_CODINGS:
        raise Encoded(f"more than {_MOST_CODINGS} codings")
    for name in reversed(names):
        try:
            body = yield from _undone(name, body, most)
        except DAMAGE as error:
            raise Encoded(str(error)) from None
    return body


def _undone(name: bytes, body: bytes | bytearray, most: int) -> Steps[bytes]:
    inflater = _inflater(name, body)
    plain: list[bytes] = []
    size, at, members = 0, 0, 1
    pending: bytes | None = None
    while True:
        if pending is None:
            if at >= len(body):
                break
            pending = bytes(body[at : at + _IN_BYTES])
            at += len(pending)
        if inflater.eof:
            members += 1
            if members > _MOST_MEMBERS or name in (b"br", b"deflate"):
                raise Encoded("bytes follow the end")
            inflater = _inflater(name, pending)
        piece, more = yield from inflater.inflate(pending)
        pending = (inflater.unused_data or None) if inflater.eof else more
        plain.append(piece)
        size += len(piece)
        if size > most:
            raise TooMuch(f"it unfolds to more than {most} bytes")
        yield
    if not inflater.eof:
        raise Encoded("it ends early")
    if size < _JOINED_BYTES:
        return b"".join(plain)
    return (yield from _elsewhere(lambda: b"".join(plain)))


def _inflater(name: bytes, first: bytes | bytearray) -> _Inflater:
    if name in (b"gzip", b"x-gzip", b"deflate"):
        return _Deflate(window_of(name.decode("ascii"), first))
    if name == b"br":
        return _Brotli()
    if name == b"zstd":
        return _Zstd()
    raise Encoded(f"the coding {name.decode('latin-1')!r} is unknown")
