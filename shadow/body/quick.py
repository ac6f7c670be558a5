"""Where a few names stand in a body that was parsed: found without reading the rest of it.

A parsed body is valid JSON. Where no character of ASCII is escaped by its number, a key of its top
level stands in it as it is spelled; and what stands in it once stands nowhere else. Everything
less plain is left to the scanner.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from shadow.body.scan import Member, Object

_COLON: Final = re.compile(rb"[ \t\n\r]{0,64}+:[ \t\n\r]{0,64}+")
_VALUE: Final = re.compile(rb'"[^"\\]{0,4096}+"|[-+.0-9A-Za-z]{1,64}+(?=[ \t\n\r,}])')
_WHITE: Final = b" \t\n\r"
_END: Final = 64


def located(
    body: bytes | bytearray, tree: Mapping[str, object], names: Iterable[str]
) -> Object | None:
    """The body as an object of those of `names` that it has, and a nameless member that ends where
    its last one does; None where that cannot be told so quickly.
    """
    if not tree or body.rfind(b"\\u00") >= 0:  # rfind takes a quarter of the time of find
        return None
    members = []
    for name in names:
        if name in tree:
            member = _member(body, name.encode())
            if member is None:
                return None
            members.append(member)
    close = body.rfind(b"}")
    tail = bytes(body[max(close - _END, 0) : close])
    rest = tail.rstrip(_WHITE)
    if not rest:
        return None
    end = close - len(tail) + len(rest)
    members.sort(key=lambda member: member.start)
    return Object(body.find(b"{"), close + 1, [*members, Member(b"", end, end, end)])


def _member(body: bytes | bytearray, name: bytes) -> Member | None:
    key = b'"' + name + b'"'
    start = body.find(key)
    if start < 0 or body.rfind(key) != start:
        return None
    colon = _COLON.match(body, start + len(key))
    if colon is None:
        return None
    value = _VALUE.match(body, colon.end())
    return None if value is None else Member(name, start, value.start(), value.end())
