"""What a request target holds: its path, and its query without what opens doors: keys and
signatures are the client's.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from shadow.credentials import MOST, UNLISTED, credential, dashed

_CODE: Final = "code"
"""Of a query alone: OAuth's, and functions' of clouds. In a body it is what a model is to read."""
MAX_PARAMETERS: Final = 64
"""A query of more is not looked through on the loop: nothing of it travels."""
_MOST_BYTES: Final = 4 * MOST
"""A longer name is not decoded, which takes up to 0.2 µs a byte."""
_SEPARATOR: Final = re.compile(rb"([&;])")


def path_of(target: bytes) -> bytes:
    """The path in a request target, without query; `*` and odd forms pass as they are."""
    path = target.partition(b"?")[0].partition(b"#")[0]
    if path[:1] == b"/":
        return path
    scheme, found, rest = path.partition(b"://")
    if found and scheme.isalpha():
        return b"/" + rest.partition(b"/")[2]
    return path


def without_secrets(target: bytes) -> tuple[bytes, list[str]]:
    """The target without secret parameters, and their names as a record may say them; what stays
    keeps bytes and order.
    """
    path, mark, query = target.partition(b"?")
    if not mark:
        return target, []
    if query.count(b"&") + query.count(b";") >= MAX_PARAMETERS:
        return path, [UNLISTED]
    parts = _SEPARATOR.split(query)
    gone: list[str] = []
    kept: list[bytes] = []
    for at in range(0, len(parts), 2):
        name = _secret(parts[at])
        if name:
            gone.append(name)
        else:
            kept += parts[at - 1 : at + 1] if kept else parts[at : at + 1]
    if not gone:
        return target, []
    return (path + b"?" + b"".join(kept) if kept else path), gone


def _secret(parameter: bytes) -> str:
    """The name of a secret, by `credential`; empty for any other parameter."""
    name = parameter.partition(b"=")[0]
    if len(name) > _MOST_BYTES:
        return UNLISTED
    if b"%" in name or b"+" in name:
        name = unquote_to_bytes(name.replace(b"+", b" "))
    name = name.partition(b"[")[0].strip(b" \t\r\n\0")  # a[] and a[0] are a list's
    text = name.decode("latin-1")
    return _CODE if dashed(text) == _CODE else credential(text)
