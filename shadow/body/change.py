"""The edits by which a body becomes what one arm wants."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from shadow.body.edit import Edit, edits
from shadow.body.names import is_nothing
from shadow.body.scan import Object, Scanner, Steps
from shadow.body.staying import left_behind
from shadow.body.wish import USAGE, Wish, json_text
from shadow.body.within import Changes, by_parent, object_of, says, within

COMPLETIONS: Final = b"/completions"
RESPONSES: Final = b"/responses"
_STORE: Final = "store"
_NONE: Final[Mapping[str, bytes]] = {}


class NotServed(ValueError):
    """The arm serves no such model."""


def changes(
    scanner: Scanner, found: Object, wish: Wish, path: bytes, more: Mapping[str, bytes] = _NONE
) -> Steps[Changes]:
    """What makes of the body what the arm wants; steering fields and credentials never stay.

    Args:
        scanner: the body's.
        found: the body, scanned.
        wish: the arm's.
        path: the request's; usage is asked for where chat/completions or completions are.
        more: further values, stronger than the arm's.

    Raises:
        NotServed: the body's model is none of the arm's.
        NotJson, TooMuch: of an object within it.
    """
    body = scanner.body
    made = _models(body, found, wish)
    values = _values(body, found, wish, path, more)
    here = {name.encode(): text for name, text in values.items() if "." not in name}
    plain = {name: text for name, text in here.items() if not says(body, found, name, text)}
    removed = yield from left_behind(body, found, b"", wish.set_here)
    removed |= {m.name: m.name.decode() for m in found.members if m.name in wish.gone}
    for name in more:
        removed.pop(name.encode(), None)
    for parent, wanted in by_parent(values, wish.removed, found).items():
        if parent in removed or parent in plain:
            continue
        there = [member for member in found.members if member.name == parent]
        if not there and wanted.values:
            plain[parent] = object_of(wanted.values)
            made.names += [f"{parent.decode()}.{name.decode()}" for name in wanted.values]
        for member in there:
            made.add(parent, (yield from within(scanner, member, wanted)))
    parents = {name.partition(".")[0] for name in made.names}
    made.names += [name.decode() for name in plain if name.decode() not in parents]
    made.names += removed.values()
    if plain or removed:
        made.edits += edits(found, plain, removed)
    return Changes(made.edits, sorted(set(made.names)))


def _values(
    body: bytes | bytearray, found: Object, wish: Wish, path: bytes, more: Mapping[str, bytes]
) -> Mapping[str, bytes]:
    """What is set, by name; a dot leads into an object."""
    values = {**wish.values, **more} if more else wish.values
    if wish.include_usage and path.endswith(COMPLETIONS) and _streamed(body, found):
        values = {**values, USAGE: b"true"}
    if path.endswith(RESPONSES) and _stores(body, found, wish):
        values = {**values, _STORE: b"false"}
    return values


def _stores(body: bytes | bytearray, found: Object, wish: Wish) -> bool:
    """Whether the Responses API would keep the copy, by its default and by no word of the arm's."""
    if _STORE in wish.values or _STORE in wish.removed:
        return False
    store = found.last(_STORE.encode())
    return store is None or is_nothing(body, store)


def _streamed(body: bytes | bytearray, found: Object) -> bool:
    stream = found.last(b"stream")
    return stream is not None and body[stream.at : stream.end] == b"true"


def _models(body: bytes | bytearray, found: Object, wish: Wish) -> Changes:
    if not wish.models:
        return Changes()
    made, named = [], False
    for member in found.members:
        if member.name == b"model":
            named = True
            stands = bytes(body[member.at : member.end])
            text = wish.spelled.get(stands)
            if text is None:
                to = wish.models.get(_string(stands))
                if to is None:
                    raise NotServed
                text = stands if to == _string(stands) else json_text(to)
            if text != stands:
                made.append(Edit(member.at, member.end, text))
    if not named:
        raise NotServed
    return Changes(made, ["model"] if made else [])


def _string(text: bytes) -> str:
    """A JSON string's text; '' where it is none, or absurdly long for a name."""
    if len(text) > 4096 or text[:1] != b'"':
        return ""
    try:
        return str(json.loads(text.decode()))
    except ValueError:
        return ""
