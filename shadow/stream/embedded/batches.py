"""How the embedded log packs a batch into one value: pure functions, no file in sight.

Packed: for each message two big-endian 32-bit lengths, the key's and the value's, then both.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from shadow.stream import Message

_LENGTHS = struct.Struct(">II")


def pack(batch: Sequence[Message]) -> bytes:
    """The batch as one value, in order."""
    parts: list[bytes] = []
    for message in batch:
        parts += (_LENGTHS.pack(len(message.key), len(message.value)), message.key, message.value)
    return b"".join(parts)


def unpack(packed: bytes) -> tuple[list[Message], bytes]:
    """The whole messages of a packed batch, in order, and the bytes behind them that are none:
    empty, unless the value is damaged.
    """
    messages: list[Message] = []
    at = 0
    while len(packed) - at >= _LENGTHS.size:
        key_length, value_length = _LENGTHS.unpack_from(packed, at)
        key_at = at + _LENGTHS.size
        value_at = key_at + key_length
        end = value_at + value_length
        if end > len(packed):
            break
        messages.append(Message(packed[key_at:value_at], packed[value_at:end]))
        at = end
    return messages, packed[at:]
