"""What of a body stays behind in every copy: credentials, and what steers an engine.

Looked for at the top level, and one by one within the objects that a gateway reads as if their
members stood there (`extra_body`), or has settings of its own in (`metadata`).
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Final

from shadow.body.names import AS_THE_BODY, CREDENTIALS, NAMES, STAYING
from shadow.body.scan import Object, Steps
from shadow.credentials import MOST, credential

HOLDERS: Final = frozenset(
    {AS_THE_BODY, b"metadata", b"litellm_metadata", b"litellm_params", b"litellm_embedding_config"}
)
"""Objects whose members are looked at."""
_NAMES_OF_HOLDERS: Final = frozenset(name.decode() for name in HOLDERS)
MOST_UNKNOWN: Final = 64
_MOST_CHARACTERS: Final = 1024
"""More names than this, or longer ones together, and never seen, are left to the scanner's steps:
a character takes up to 0.2 µs."""
_KNOWN_NAMES: Final = 4096
"""Of at most `credentials.MOST` characters."""
A_STEP: Final = 32
"""So many members are looked at before there is a step between two arms."""
_A_NAME: Final = 32
_STEP_CHARACTERS: Final = 1024
"""Judged in one step, a name counting as some of them: 0.3 ms where all of them are odd."""

_known: set[str] = set()
"""Names that were judged and mean nothing: a look-up in C for all of a body's."""


def left_behind(
    body: bytes | bytearray, found: Object, within: bytes, wanted: Container[bytes]
) -> Steps[dict[bytes, str]]:
    """The names of an object's members that stay behind, and how a record says each.

    Args:
        body: the body.
        found: the object in it.
        within: its own name; b"": it is the body.
        wanted: names that the arm sets: these do not.
    """
    gone: dict[bytes, str] = {}
    named = STAYING if within in (b"", AS_THE_BODY) else CREDENTIALS
    spent = 0
    for member in found.members:
        name = member.name
        spent += _A_NAME + min(len(name), MOST)
        if spent > _STEP_CHARACTERS:
            yield
            spent = 0
        if name in gone or name in wanted:
            continue
        if name in named:
            gone[name] = name.decode()
        elif said := credential(name.decode("utf-8", "replace")):
            gone[name] = said.replace("-", "_")
        elif name in HOLDERS and body[member.at] == b'"'[0]:
            gone[name] = name.decode()  # some read an object out of a text
    if len(found.members) > A_STEP:
        yield  # what takes them away looks at all of them
    return gone


def nothing_stays(tree: dict[str, Any], body: bytes | bytearray) -> bool:
    """Whether a parsed body has nothing that stays behind, or points at state by a name alone;
    False also where that cannot be told quickly.
    """
    if _known.issuperset(tree):
        return True
    unknown = [name for name in tree if name not in _known]
    if len(unknown) > MOST_UNKNOWN:
        return False
    names: list[str] = []
    for name in unknown:
        if name not in _NAMES_OF_HOLDERS:
            names.append(name)
            continue
        inside = tree[name]
        if not _one_object(name, inside, body):
            return False
        if inside and not _known.issuperset(inside):
            names += [each for each in inside if each not in _known]
    if not names:
        return True
    if len(names) > MOST_UNKNOWN or sum(map(len, names)) > _MOST_CHARACTERS:
        return False
    return all(map(_means_nothing, names))


def _means_nothing(name: str) -> bool:
    if name in NAMES or name in _NAMES_OF_HOLDERS or credential(name):
        return False
    if len(_known) < _KNOWN_NAMES:
        _known.add(name)
    return True


def _one_object(name: str, value: Any, body: bytes | bytearray) -> bool:
    """Whether it is one, or null, and no second one can hide behind the one parsed."""
    key = b'"%b"' % name.encode()
    if body.rfind(b"\\u00") >= 0 or body.find(key) != body.rfind(key):
        return False
    return value is None or value.__class__ is dict
