"""What a header field's name means to the relay: everything that both kinds of heads share.

A name is looked at once in the process's life and remembered by its spelling, since peers send the
same few names: judging a field is then one look-up.
"""

from __future__ import annotations

from typing import Final

PLAIN, EXPECT, MARK, CONSENT, CODED, HOST, LENGTH, CODING, CONNECTION, HOP, UPGRADE = range(11)
"""Kinds up to HOST stay in the head as they are; those from LENGTH on belong to the framing or to
the hop."""

CHUNKED: Final = -1
"""A body length that the chunks tell."""
UNTIL_CLOSE: Final = -2
"""A body length that the connection's end tells (answers only)."""

_MEANING: Final = {
    b"host": HOST,
    b"content-length": LENGTH,
    b"transfer-encoding": CODING,
    b"connection": CONNECTION,
    b"keep-alive": HOP,
    b"proxy-connection": HOP,
    b"te": HOP,
    b"http2-settings": HOP,
    b"upgrade": UPGRADE,
    b"expect": EXPECT,
    b"x-shadow-arm": MARK,
    b"x-shadow": CONSENT,
    b"content-encoding": CODED,
}
_NEVER_NAMED: Final = frozenset({b"host", b"content-length", b"transfer-encoding"})
"""`Connection: content-length` would take the framing away; such a nomination is not followed."""
_OPTIONS: Final = frozenset({b"close", b"keep-alive", b"upgrade", b""})
TOKEN: Final = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
TEXT: Final = bytes([9, *range(32, 127), *range(128, 256)])
"""What may stand in a line: no control characters but the tab."""
MAX_DIGITS: Final = 18
_KNOWN_NAMES: Final = 4096
_KNOWN_BYTES: Final = 64
"""Of each: what clients make up fills no memory."""

known: dict[bytes, int] = {}
"""Kinds by a name's spelling; a miss asks `meaning`."""


class NotAField(ValueError):
    """The line is no `name: value` whose name is a token."""


def meaning(line: bytes, colon: int) -> int:
    """The kind of the field whose name ends at `colon`.

    Raises:
        NotAField: no name, or not a token (a folded line, white space before the colon).
    """
    name = line[:colon] if colon > 0 else b""
    if not name or name.translate(None, TOKEN):
        raise NotAField("a header line is folded, or its name is not a token")
    kind = _MEANING.get(name.lower(), PLAIN)
    if len(name) <= _KNOWN_BYTES and len(known) < _KNOWN_NAMES:
        known[name] = kind
    return kind


def options(connection: bytes) -> set[bytes]:
    """What Connection says, in small letters."""
    return {name.strip(b" \t") for name in connection.lower().split(b",")}


def drop_named(lines: list[bytes], names: set[bytes]) -> None:
    """Take away, in place, the fields that Connection names; `lines[0]` is the start line."""
    named = names - _OPTIONS - _NEVER_NAMED
    if named:
        lines[1:] = [
            line for line in lines[1:] if line.partition(b":")[0].strip().lower() not in named
        ]
