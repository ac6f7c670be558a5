"""A body on the wire: deflated (RFC 1950), then base64, inside the JSON document."""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

MAX_BODY_BYTES = 256 * 1024 * 1024
"""The most that one deflated body may unfold to when it is read from the stream."""

STORED_BYTES = 1024
"""Up to here a body is stored, not compressed: 0.3 µs instead of 4 to 15 and two hand-overs of the
interpreter's lock, for a few hundred bytes more."""
_SMALL_BYTES, _MEDIUM_BYTES = 32 * 1024, 64 * 1024
_TABLES = (14, 5), (zlib.MAX_WBITS, 5), (zlib.MAX_WBITS, 8)
"""zlib's wbits and memLevel for small, medium and large bodies: full tables cost 15 µs to allocate,
and the full window 10 µs of page faults, several times the work on a small body."""


def deflated(body: bytes | bytearray) -> str:
    """Base64 of a RFC 1950 stream: one stored block, or level 1."""
    length = len(body)
    if length <= STORED_BYTES:
        block = struct.pack("<BHH", 1, length, length ^ 0xFFFF)
        stream = b"\x78\x01" + block + body + zlib.adler32(body).to_bytes(4, "big")
    else:
        window, memory = _TABLES[(length > _SMALL_BYTES) + (length > _MEDIUM_BYTES)]
        deflater = zlib.compressobj(1, zlib.DEFLATED, window, memory)
        stream = deflater.compress(body) + deflater.flush()
    return binascii.b2a_base64(stream, newline=False).decode("ascii")


def _inflate(wire: object) -> object:
    """Undo `deflated`; bytes given by a caller pass as they are."""
    if not isinstance(wire, str):
        return wire
    try:
        inflater = zlib.decompressobj()
        body = inflater.decompress(base64.b64decode(wire, validate=True), MAX_BODY_BYTES)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"not a deflated, base64-coded body: {error}") from error
    if not inflater.eof:
        raise ValueError("the deflated body is cut short or larger than 256 MiB")
    return body


Body = Annotated[
    bytes,
    BeforeValidator(_inflate),
    PlainSerializer(deflated, return_type=str, when_used="json"),
]
