"""Whose request it was: a salted hash of a configured header, to purge by and not to be read."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

DIGITS: Final = 32
"""Hex digits of a subject: 128 bits of HMAC-SHA256."""


def subject_of(value: bytes, salt: str) -> str:
    """The subject that a header's value stands for, as records and tables carry it.

    Args:
        value: its bytes as on the wire; white space around them does not count.
        salt: the configuration's secret; another salt gives other subjects.
    """
    return hmac.new(salt.encode(), value.strip(b" \t"), hashlib.sha256).hexdigest()[:DIGITS]


def subject_in(lines: Iterable[bytes], header: bytes, salt: str) -> str | None:
    """The subject of a request, or None where no such header says one.

    Args:
        lines: the head's field lines, `name: value`, without the request line.
        header: the configured name in small letters; where it stands twice, the first counts.
        salt: as above.
    """
    for line in lines:
        name, _, value = line.partition(b":")
        if len(name) == len(header) and name.lower() == header and value.strip(b" \t"):
            return subject_of(value, salt)
    return None
