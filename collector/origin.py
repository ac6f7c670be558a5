"""Which exchange a record was, as far as its bytes tell although it cannot be read. Pure.

The analysis waits for every sequence number of a worker; one whose record was given up must be
known, or the windows behind it never close.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

_RECORD = re.compile(rb'\{"record":"')
_IS_EXCHANGE = re.compile(rb'"record"\s*:\s*"exchange"')
# Quotes within a JSON string are escaped, so these match keys alone; the first is the record's own.
_TEXTS = {
    name: re.compile(rb'"%b"\s*:\s*"([\x20\x21\x23-\x5b\x5d-\x7e]{1,200})"' % name.encode())
    for name in ("experiment", "worker", "boot_id")
}
_SEQUENCE = re.compile(rb'"sequence"\s*:\s*(\d{1,18})\b')


@dataclass(frozen=True, slots=True)
class Origin:
    """Who gave an exchange which number; empty and 0 where it cannot be told."""

    experiment: str = ""
    worker: str = ""
    boot_id: str = ""
    sequence: int = 0


UNKNOWN = Origin()


def origin_of(value: bytes) -> Origin:
    """The exchange that these bytes were; `UNKNOWN` unless all of it can be told."""
    if not _IS_EXCHANGE.search(value):
        return UNKNOWN
    texts = {name: pattern.search(value) for name, pattern in _TEXTS.items()}
    sequence = _SEQUENCE.search(value)
    if sequence is None or None in texts.values():
        return UNKNOWN
    said = {name: match[1].decode("ascii") for name, match in texts.items() if match}
    return Origin(**said, sequence=int(sequence[1]))


def records_in(damaged: bytes) -> list[bytes]:
    """The bytes cut apart where a second record begins, and a third; all of them, in order."""
    begins = [match.start() for match in _RECORD.finditer(damaged)][1:]
    return [damaged[a:b] for a, b in pairwise([0, *begins, len(damaged)])]
