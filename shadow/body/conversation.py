"""Which conversation a request belongs to: the hash of how it began.

Every turn repeats the messages up to the first of the user's, so all turns have one hash, and no
state is needed to know it. What clients change from turn to turn counts for nothing: how the JSON
is spelled, whether a text stands alone or as a part, and cache markers.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

import orjson

from shadow.body.parsed import PARSED_BYTES, soon_parsed
from shadow.body.scan import Object, Scanner, Steps

_BEFORE: Final = ("system", "instructions")
_DEEP: Final = b"\x00deep"
MOST_MESSAGES: Final = 64
"""Before and with the user's first; what has more begins no conversation."""
MOST_PARTS: Final = 256
"""Of a message; more are not looked at one by one: they count as they are."""
_SLICE: Final = 128 * 1024
_PARSED: Final = PARSED_BYTES + 1
Beginning = list[tuple[bytes, bytes]]
"""(role, text) of each message up to the user's first; before them the system's own field."""


class Hash:
    """Salted by the experiment: two experiments' hashes say nothing of each other."""

    __slots__ = ("_keyed",)

    def __init__(self, experiment: str) -> None:
        self._keyed = blake2b(digest_size=16, key=experiment.encode()[:64], person=b"conversation")

    def of(self, tenant: bytes, beginning: Beginning) -> str:
        """32 hex digits."""
        state = self._keyed.copy()
        parts = [tenant, *(part for message in beginning for part in message)]
        sizes = b",".join(b"%d" % len(part) for part in parts)
        state.update(b"".join([sizes, b";", *parts]))
        return state.hexdigest()


def beginning_in(tree: dict[str, Any]) -> Beginning | None:
    """How the conversation of a parsed body began; None where it holds no user's message."""
    found = [(name.encode(), _text(tree[name])) for name in _BEFORE if name in tree]
    messages = tree.get("messages", tree.get("input"))
    if messages.__class__ is str:
        return [*found, (b"user", _text(messages))]
    if messages.__class__ is not list:
        return None
    for message in messages[:MOST_MESSAGES]:
        if message.__class__ is not dict:
            return None
        role = _text(message.get("role"))
        found.append((role, _text(message.get("content"))))
        if role == b"user":
            return found
    return None


def beginning_of(scanner: Scanner, found: Object) -> Steps[Beginning | None]:
    """The same of a body that was scanned; a text over 256 KiB counts as it is spelled."""
    begun: Beginning = []
    for name in _BEFORE:
        said = found.last(name.encode())
        if said is not None:
            begun.append((said.name, (yield from _value(scanner, said.at, said.end))))
    messages = found.last(b"messages") or found.last(b"input")
    if messages is None:
        return None
    first = scanner.body[messages.at : messages.at + 1]
    if first == b'"':
        return [*begun, (b"user", (yield from _value(scanner, messages.at, messages.end)))]
    at = yield from scanner.white(messages.at + 1)
    for _ in range(MOST_MESSAGES):
        if first != b"[" or scanner.body[at : at + 1] != b"{":
            return None
        message = yield from scanner.members(at)
        role = yield from _field(scanner, message, b"role")
        begun.append((role, (yield from _field(scanner, message, b"content"))))
        if role == b"user":
            return begun
        at = yield from scanner.white(message.end)
        at = yield from scanner.white(at + (scanner.body[at : at + 1] == b","))
    return None


def _field(scanner: Scanner, message: Object, name: bytes) -> Steps[bytes]:
    member = message.last(name)
    return _text(None) if member is None else (yield from _value(scanner, member.at, member.end))


def _value(scanner: Scanner, at: int, end: int) -> Steps[bytes]:
    with memoryview(scanner.body) as whole:
        text = bytes(whole[at : min(end, at + _PARSED)])
        if soon_parsed(text):
            try:
                return _text(orjson.loads(text))
            except orjson.JSONDecodeError:
                return text
        digest = blake2b(digest_size=32)
        for begin in range(at, end, _SLICE):
            digest.update(whole[begin : min(end, begin + _SLICE)])
            yield
    return digest.digest()


def _text(value: Any) -> bytes:
    """A text as UTF-8, parts of a text joined; anything else as canonical JSON."""
    if value.__class__ is str:
        return bytes(value.encode())
    if value.__class__ is list and len(value) <= MOST_PARTS:
        return b"".join(_part(part) for part in value)
    return _canonical(value)


def _part(part: Any) -> bytes:
    if part.__class__ is dict:
        text = part.get("text")
        if text.__class__ is str:
            return bytes(text.encode())
        part = {key: value for key, value in part.items() if key != "cache_control"}
    return _canonical(part)


def _canonical(value: Any) -> bytes:
    """As JSON with its keys sorted; what is nested deeper than that is written (254) is all one."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        return _DEEP
