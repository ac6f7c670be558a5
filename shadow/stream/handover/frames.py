"""What goes over the socket. A frame is its length (8 bytes, big-endian) and its bytes.

In: first the worker's name, then batches: for each message the length of its key (4 bytes), the
key, the length of its value (8 bytes), the value. Out: a JSON object a batch, see `Answer`.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

import orjson

from shadow.stream import Message

MOST_BYTES: Final = 2**30
"""A larger frame is none of ours."""
_LENGTH: Final = struct.Struct(">Q")
_KEY: Final = struct.Struct(">I")
_READ_BYTES: Final = 2**18


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a batch: all fields empty when it is stored."""

    full: str = ""
    unavailable: str = ""
    fault: str = ""
    """What nobody foresaw, by kind and place: the batch is not stored, and never will be."""
    too_large: tuple[int, ...] = ()
    """Which of its messages never can be stored; the others are."""
    limit_bytes: int = 0
    spooled: int = 0
    """How many messages wait on the disk of the host."""


def send(connection: socket.socket, frame: Sequence[bytes]) -> None:
    """Send a frame that stands in pieces."""
    connection.sendall(_LENGTH.pack(sum(map(len, frame))))
    for piece in frame:
        connection.sendall(piece)


def receive(connection: socket.socket) -> bytes | None:
    """The next frame; None where the other side has closed.

    Raises:
        ConnectionError: it closed within a frame, or sent what is none.
    """
    head = _exactly(connection, _LENGTH.size)
    if head is None:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > MOST_BYTES:
        raise ConnectionError(f"a frame of {length} bytes")
    frame = _exactly(connection, length)
    if frame is None:
        raise ConnectionError("the connection ended within a frame")
    return frame


def packed(batch: Sequence[Message]) -> list[bytes]:
    """A batch as the pieces of a frame."""
    pieces: list[bytes] = []
    for message in batch:
        key, value = message.key, message.value
        pieces += [_KEY.pack(len(key)), key, _LENGTH.pack(len(value)), value]
    return pieces


def unpacked(frame: bytes) -> list[Message]:
    """The batch in a frame.

    Raises:
        ConnectionError: it is none.
    """
    batch, at = [], 0
    try:
        while at < len(frame):
            (size,) = _KEY.unpack_from(frame, at)
            key = frame[at + 4 : at + 4 + size]
            (length,) = _LENGTH.unpack_from(frame, at + 4 + size)
            at += 12 + size + length
            batch.append(Message(key, frame[at - length : at]))
    except struct.error as error:
        raise ConnectionError(f"no batch: {error}") from None
    return batch


def told(answer: Answer) -> bytes:
    """An answer as a frame's bytes."""
    return orjson.dumps(asdict(answer))


def read(frame: bytes) -> Answer:
    """The answer in a frame.

    Raises:
        ConnectionError: it is none.
    """
    try:
        fields = orjson.loads(frame)
        return Answer(**{**fields, "too_large": tuple(fields["too_large"])})
    except (ValueError, TypeError, LookupError) as error:
        raise ConnectionError(f"no answer: {error}") from None


def _exactly(connection: socket.socket, length: int) -> bytes | None:
    pieces = bytearray()
    while len(pieces) < length:
        piece = connection.recv(min(length - len(pieces), _READ_BYTES))
        if not piece:
            if pieces:
                raise ConnectionError("the connection ended within a frame")
            return None
        pieces += piece
    return bytes(pieces)
