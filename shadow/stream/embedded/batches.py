"""How the embedded log packs a batch into one value: pure functions, no file in sight.

Packed: for each message two big-endian 32-bit lengths, the key's and the value's, then both.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from shadow.stream import Message

_LENGTHS = struct.Struct(">II")


def pack(batch: Sequence[Message]) -> bytes:
    """The batch as one value, in order."""
    parts: list[bytes] = []
    for message in batch:
        parts += (_LENGTHS.pack(len(message.key), len(message.value)), message.key, message.value)
    return b"".join(parts)


def unpack(packed: bytes) -> Iterator[Message]:
    """The messages of a packed batch, in order.

    Raises:
        ValueError: the value is cut short.
    """
    at = 0
    while at < len(packed):
        try:
            key_length, value_length = _LENGTHS.unpack_from(packed, at)
        except struct.error:
            raise ValueError("a packed batch is cut short") from None
        key_at = at + _LENGTHS.size
        value_at = key_at + key_length
        at = value_at + value_length
        if at > len(packed):
            raise ValueError("a packed batch is cut short")
        yield Message(packed[key_at:value_at], packed[value_at:at])
