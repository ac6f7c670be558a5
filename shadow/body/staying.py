"""What of a body stays behind in every copy: credentials, and what steers an engine.

Looked for at the top level, and one by one within the objects that a gateway reads as if their
members stood there (`extra_body`), or has settings of its own in (`metadata`).
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Final

from shadow.body.names import AS_THE_BODY, NAMES, STAYING
from shadow.body.scan import Object, Steps
from shadow.credentials import credential

HOLDERS: Final = frozenset(
    {AS_THE_BODY, b"metadata", b"litellm_metadata", b"litellm_params", b"litellm_embedding_config"}
)
"""Objects whose members are looked at."""
_NAMES_OF_HOLDERS: Final = frozenset(name.decode() for name in HOLDERS)
MOST_UNKNOWN: Final = 64
"""More names than this, and never seen, are left to the scanner's steps."""
_KNOWN_NAMES: Final = 4096
_KNOWN_CHARACTERS: Final = 64
A_STEP: Final = 32
"""Names judged in one, each in up to 10 µs."""

_known: set[str] = set()
"""Names that were judged and mean nothing: a look-up in C for all of a body's."""


def left_behind(
    body: bytes | bytearray, found: Object, within: bytes, wanted: Container[bytes]
) -> Steps[set[bytes]]:
    """The names of an object's members that stay behind.

    Args:
        body: the body.
        found: the object in it.
        within: its own name; b"": it is the body.
        wanted: names that the arm sets: these do not.
    """
    gone: set[bytes] = set()
    steered = within in (b"", AS_THE_BODY)
    for n, member in enumerate(found.members):
        name = member.name
        if n % A_STEP == A_STEP - 1:
            yield
        if name in gone or name in wanted:
            continue
        if (steered and name in STAYING) or credential(name.decode("utf-8", "replace")):
            gone.add(name)
        elif name in HOLDERS and body[member.at] == b'"'[0]:
            gone.add(name)  # some read an object out of a text
    return gone


def plain(tree: dict[str, Any], body: bytes | bytearray) -> bool:
    """Whether a parsed body has nothing that stays behind, or points at state by a name alone;
    False also where that cannot be told quickly.
    """
    if _known.issuperset(tree):
        return True
    unknown = [name for name in tree if name not in _known]
    if len(unknown) > MOST_UNKNOWN:
        return False
    for name in unknown:
        if name in _NAMES_OF_HOLDERS:
            if not _plain_holder(name, tree[name], body):
                return False
        elif not _means_nothing(name):
            return False
    return True


def _means_nothing(name: str) -> bool:
    if name in NAMES or name in _NAMES_OF_HOLDERS or credential(name):
        return False
    if len(_known) < _KNOWN_NAMES and len(name) <= _KNOWN_CHARACTERS:
        _known.add(name)
    return True


def _plain_holder(name: str, value: Any, body: bytes | bytearray) -> bool:
    """Whether it has nothing to look at, and no second one can hide behind the one parsed."""
    key = b'"%b"' % name.encode()
    if body.rfind(b"\\u00") >= 0 or body.find(key) != body.rfind(key):
        return False
    if value is None:
        return True
    if value.__class__ is not dict or len(value) > MOST_UNKNOWN:
        return False
    return _known.issuperset(value) or all(map(_means_nothing, value))
