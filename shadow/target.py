"""What a request target holds: its path, and its query without what opens doors: keys and
signatures are the client's.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

SECRETS: Final = frozenset(
    {
        b"access-key",
        b"access-token",
        b"api-key",
        b"api-token",
        b"apikey",
        b"auth",
        b"auth-token",
        b"authkey",
        b"authorization",
        b"bearer",
        b"client-secret",
        b"code",
        b"credential",
        b"credentials",
        b"hmac",
        b"id-token",
        b"jwt",
        b"key",
        b"pass",
        b"passwd",
        b"password",
        b"pwd",
        b"refresh-token",
        b"secret",
        b"session-token",
        b"sig",
        b"signature",
        b"subscription-key",
        b"token",
        b"x-amz-credential",
        b"x-amz-security-token",
        b"x-amz-signature",
        b"x-api-key",
        b"x-goog-api-key",
        b"x-goog-credential",
        b"x-goog-signature",
    }
)
"""Parameters that do not travel: in small letters, `_` read as `-`."""
_SECRET: Final = re.compile(
    rb"-(?:key|token|secret|signature|sig|passw(?:or)?d|credentials?|jwt|auth(?:orization)?)"
)
"""How the name of one ends that no list has."""
MAX_PARAMETERS: Final = 256
"""A query of more is not looked through on the loop: nothing of it travels."""
ALL: Final = "*"
_SEPARATOR: Final = re.compile(rb"([&;])")
_HUMP: Final = re.compile(rb"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BETWEEN: Final = bytes.maketrans(b"_.", b"--")


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
    """The target without secret parameters, and their names; what stays keeps bytes and order."""
    path, mark, query = target.partition(b"?")
    if not mark:
        return target, []
    if query.count(b"&") + query.count(b";") >= MAX_PARAMETERS:
        return path, [ALL]
    parts = _SEPARATOR.split(query)
    gone: list[str] = []
    kept: list[bytes] = []
    for at in range(0, len(parts), 2):
        name = _secret(parts[at])
        if name:
            gone.append(name.decode("latin-1"))
        else:
            kept += parts[at - 1 : at + 1] if kept else parts[at : at + 1]
    if not gone:
        return target, []
    return (path + b"?" + b"".join(kept) if kept else path), gone


def _secret(parameter: bytes) -> bytes:
    """The name of a secret, in small letters and with dashes; empty for any other parameter."""
    name = parameter.partition(b"=")[0]
    if b"%" in name or b"+" in name:
        name = unquote_to_bytes(name.replace(b"+", b" "))
    name = name.partition(b"[")[0].strip(b" \t\r\n\0")  # a[] and a[0] are a list's
    plain = name.lower().translate(_BETWEEN)
    if plain in SECRETS or _ends_secretly(plain):
        return plain
    humps = _HUMP.sub(b"-", name).lower().translate(_BETWEEN)
    return humps if humps in SECRETS or _ends_secretly(humps) else b""


def _ends_secretly(name: bytes) -> bool:
    dash = name.rfind(b"-")
    return dash >= 0 and _SECRET.fullmatch(name, dash) is not None
