"""JSON as it lies in its bytes: a document split at its strings, without reading it.

parts[0], strings[0], parts[1] … Never fails: what is no JSON has strings too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import regex

if TYPE_CHECKING:
    from collections.abc import Sequence

_STRING: Final = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+\\?)"?', re.DOTALL)
"""The last one may lack its end."""
_FREE_STRING: Final = regex.compile(_STRING.pattern, regex.DOTALL)
_LONG_BYTES: Final = 64 * 1024
"""Longer documents are split by what lets go of the interpreter's lock, string by string."""


def split(document: bytes) -> list[bytes]:
    """parts[0], strings[0], parts[1], …, parts[n]: strings without their quotes."""
    if len(document) > _LONG_BYTES:
        return list(_FREE_STRING.splititer(document, concurrent=True))
    return _STRING.split(document)


def offset_of(parts: Sequence[bytes], at: int) -> int:
    """Where one of the parts and strings begins: between two neighbours stands a quote."""
    return sum(map(len, parts[:at])) + at


def is_key(following: bytes) -> bool:
    """Whether the string is a key, by the part that follows it."""
    return following[:1] == b":" or following.lstrip()[:1] == b":"


def keys_of(parts: Sequence[bytes]) -> list[int]:
    """Where keys stand among the parts."""
    return [n - 1 for n in range(2, len(parts), 2) if is_key(parts[n])]
