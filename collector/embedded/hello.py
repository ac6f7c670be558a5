"""clickhouse-go's first question, the one answer that it decodes at its own protocol revision."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_QUESTION = re.compile(
    rb"\s*SELECT\s+displayName\(\)\s*,\s*version\(\)\s*,\s*revision\(\)\s*,\s*timezone\(\)\s*;?\s*\Z",
    re.IGNORECASE,
)
_CUSTOM_SERIALIZATION_REVISION = 54454
_BLOCK_INFO = bytes((1, 0, 2, 0xFF, 0xFF, 0xFF, 0xFF, 0))
_PLAIN = b"\0"


def asks_hello(text: bytes, params: Mapping[str, str]) -> bool:
    """Is this that question, from a client that names a revision?"""
    revision = params.get("client_protocol_version", "")
    asked = revision.isdigit() and int(revision) >= _CUSTOM_SERIALIZATION_REVISION
    return asked and _QUESTION.match(text) is not None


def hello_block(name: str, version: str, timezone: str) -> bytes:
    """One row as FORMAT Native of a late revision, which says that ours is 0.

    From then on the client decodes plain Native, as chDB writes it.
    """
    columns = (
        ("displayName()", "String", _text(name)),
        ("version()", "String", _text(version)),
        ("revision()", "UInt32", struct.pack("<I", 0)),
        ("timezone()", "String", _text(timezone)),
    )
    parts = (_text(title) + _text(kind) + _PLAIN + value for title, kind, value in columns)
    return _BLOCK_INFO + _varint(len(columns)) + _varint(1) + b"".join(parts)


def _text(value: str) -> bytes:
    data = value.encode()
    return _varint(len(data)) + data


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
