"""What one arm wants changed in a body, and the edits that do it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from shadow.body.edit import Edit, edits, key_text
from shadow.body.names import MOST_DEEP, is_nothing
from shadow.body.scan import Member, Object, Scanner, Steps, TooMuch
from shadow.body.staying import HOLDERS, left_behind

COMPLETIONS: Final = b"/completions"
RESPONSES: Final = b"/responses"
_STORE: Final = "store"
_GREEDY: Final[dict[bytes, Mapping[str, bytes]]] = {
    b"completions": {"temperature": b"0", "seed": b"1"},
    b"responses": {"temperature": b"0"},
    b"messages": {"temperature": b"0"},
}
"""What a greedy probe sets, by the path's last segment; the last two have no seed."""
_NONE: Final[Mapping[str, bytes]] = {}
_MOST_SAID: Final = 64
_USAGE: Final = "stream_options.include_usage"


class NotServed(ValueError):
    """The arm serves no such model."""


@dataclass(frozen=True, slots=True)
class Wish:
    """An arm's `models`, `params`, `include_usage` and `amplify`."""

    models: Mapping[str, str]
    values: Mapping[str, bytes]
    """JSON texts by name; a dot leads into an object."""
    removed: tuple[str, ...] = ()
    include_usage: bool = False
    copies: int = 1
    nested: bool = field(init=False)
    """Something within an object is taken away."""
    spelled: Mapping[bytes, bytes] = field(init=False)
    """`models` as JSON texts, as most clients spell them."""
    gone: frozenset[bytes] = field(init=False)
    """Top-level names that are taken away."""
    set_here: frozenset[bytes] = field(init=False)
    """Top-level names that are set."""

    def __post_init__(self) -> None:
        texts = {json_text(name): json_text(to) for name, to in self.models.items()}
        gone = frozenset(name.encode() for name in self.removed if "." not in name)
        here = frozenset(name.encode() for name in self.values if "." not in name)
        object.__setattr__(self, "nested", any("." in name for name in self.removed))
        object.__setattr__(self, "spelled", texts)
        object.__setattr__(self, "gone", gone - here)
        object.__setattr__(self, "set_here", here)

    @property
    def reads(self) -> bool:
        """Whether it can only be met by reading the body."""
        return bool(self.models or self.values or self.removed or self.include_usage)


def greedy(path: bytes) -> Mapping[str, bytes] | None:
    """What makes a request greedy; None where nothing is sampled."""
    return _GREEDY.get(path.rpartition(b"/")[2])


def sought(wishes: Iterable[Wish], *, probed: bool) -> tuple[tuple[str, ...], frozenset[str]]:
    """Top-level names whose values decide or are replaced; and those that need the scanner where
    they are there: objects to change within, and what is taken away.
    """
    values, scanned = {"model"}, set[str]()
    for wish in wishes:
        values |= {name for name in wish.values if "." not in name}
        scanned |= {name.partition(".")[0] for name in (*wish.values, *wish.removed) if "." in name}
        scanned |= {name for name in wish.removed if "." not in name}
        if wish.include_usage:
            values.add("stream")
            scanned.add(_USAGE.partition(".")[0])
    if probed:
        values |= {name for more in _GREEDY.values() for name in more}
    return tuple(sorted(values)), frozenset(scanned)


@dataclass(frozen=True, slots=True)
class Changes:
    """Edits of a body, and which names they alter."""

    edits: list[Edit]
    names: list[str]


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
    made, names = _models(body, found, wish)
    values = {**wish.values, **more} if more else wish.values
    if wish.include_usage and path.endswith(COMPLETIONS) and _streamed(body, found):
        values = {**values, _USAGE: b"true"}
    if path.endswith(RESPONSES) and _stores(body, found, wish):
        values = {**values, _STORE: b"false"}
    plain: dict[bytes, bytes] = {}
    nested = wish.nested
    for name, text in values.items():
        if "." in name:
            nested = True
        elif not _is(body, found, name.encode(), text):
            plain[name.encode()] = text
    removed = yield from left_behind(body, found, b"", wish.set_here)
    removed |= {member.name for member in found.members if member.name in wish.gone}
    if more:
        removed -= {name.encode() for name in more}
    holders = [member.name for member in found.members if member.name in HOLDERS]
    if nested or holders:
        inside = _nested(values, wish.removed)
        for holder in holders:
            inside.setdefault(holder, ({}, []))
        yield from _all_within(scanner, found, inside, removed, plain, made, names)
    parents = {name.partition(".")[0] for name in names}
    names += [said(name) for name in plain if said(name) not in parents]
    names += [said(name) for name in removed]
    if plain or removed:
        made += edits(found, plain, removed)
    return Changes(made, sorted(set(names)) if len(names) > 1 else names)


def _all_within(
    scanner: Scanner,
    found: Object,
    inside: dict[bytes, tuple[dict[bytes, bytes], list[bytes]]],
    removed: set[bytes],
    plain: dict[bytes, bytes],
    made: list[Edit],
    names: list[str],
) -> Steps[None]:
    """Add what is changed within objects: to `plain` where the object is new, else to `made`."""
    for parent, (values, gone) in inside.items():
        if parent in removed or parent in plain:
            continue
        there = [member for member in found.members if member.name == parent]
        if not there and values:
            plain[parent] = _object(values)
            names += [f"{parent.decode()}.{name.decode()}" for name in values]
        for member in there:
            edited, altered = yield from _within(scanner, member, values, gone)
            made += edited
            names += [f"{said(parent)}.{name}" for name in altered]


def said(name: bytes) -> str:
    """A name as a record says it; of a long one, which a client made up, its beginning."""
    return name[:_MOST_SAID].decode("utf-8", "replace")


def _stores(body: bytes | bytearray, found: Object, wish: Wish) -> bool:
    """Whether the Responses API would keep the copy, by its default and by no word of the arm's."""
    if _STORE in wish.values or _STORE in wish.removed:
        return False
    store = found.last(_STORE.encode())
    return store is None or is_nothing(body, store)


def _models(body: bytes | bytearray, found: Object, wish: Wish) -> tuple[list[Edit], list[str]]:
    if not wish.models:
        return [], []
    made, named = [], False
    for member in found.members:
        if member.name == b"model":
            named = True
            said = bytes(body[member.at : member.end])
            text = wish.spelled.get(said)
            if text is None:
                to = wish.models.get(_string(said))
                if to is None:
                    raise NotServed
                text = said if to == _string(said) else json_text(to)
            if text != said:
                made.append(Edit(member.at, member.end, text))
    if not named:
        raise NotServed
    return made, ["model"] if made else []


def _string(text: bytes) -> str:
    """A JSON string's text; '' where it is none, or absurdly long for a name."""
    if len(text) > 4096 or text[:1] != b'"':
        return ""
    try:
        return str(json.loads(text.decode()))
    except ValueError:
        return ""


def _streamed(body: bytes | bytearray, found: Object) -> bool:
    stream = found.last(b"stream")
    return stream is not None and body[stream.at : stream.end] == b"true"


def _is(body: bytes | bytearray, found: Object, name: bytes, text: bytes) -> bool:
    """Whether the member says so already, wherever it stands."""
    said = [m for m in found.members if m.name == name]
    return bool(said) and all(
        m.end - m.at == len(text) and body[m.at : m.end] == text for m in said
    )


def _nested(
    values: Mapping[str, bytes], removed: tuple[str, ...]
) -> dict[bytes, tuple[dict[bytes, bytes], list[bytes]]]:
    """By the object they lie in: what to set there, what to take away."""
    found: dict[bytes, tuple[dict[bytes, bytes], list[bytes]]] = {}
    for name, text in values.items():
        parent, dot, child = name.partition(".")
        if dot:
            found.setdefault(parent.encode(), ({}, []))[0][child.encode()] = text
    for name in removed:
        parent, dot, child = name.partition(".")
        if dot:
            found.setdefault(parent.encode(), ({}, []))[1].append(child.encode())
    return found


def _within(
    scanner: Scanner,
    member: Member,
    values: Mapping[bytes, bytes],
    removed: Sequence[bytes],
    deep: int = 0,
) -> Steps[tuple[list[Edit], list[str]]]:
    """(the edits of an object that is a value, what they alter). A null becomes one; anything else
    is no object, and the arm will say so as the primary does.
    """
    body = scanner.body
    if body[member.at] != b"{"[0]:
        if values and body[member.at : member.end] == b"null":
            return [Edit(member.at, member.end, _object(values))], [said(name) for name in values]
        return [], []
    inner = yield from Scanner(body).members(
        member.at
    )  # a count of its own: no arm spends another's
    wanted = {name: text for name, text in values.items() if not _is(body, inner, name, text)}
    gone = {name for name in removed if inner.last(name) is not None}
    made, altered = list[Edit](), list[str]()
    if member.name in HOLDERS:
        gone |= yield from left_behind(body, inner, member.name, values)
        for each in inner.members:
            if each.name in HOLDERS and each.name not in gone and each.name not in values:
                if deep == MOST_DEEP:
                    raise TooMuch("objects within objects")
                edited, names = yield from _within(scanner, each, {}, (), deep + 1)
                made += edited
                altered += [f"{said(each.name)}.{name}" for name in names]
    altered += [said(name) for name in (*wanted, *gone)]
    return made + edits(inner, wanted, gone), altered


def _object(values: Mapping[bytes, bytes]) -> bytes:
    inside = b",".join(key_text(name) + b":" + text for name, text in values.items())
    return b"{" + inside + b"}"


def json_text(value: object) -> bytes:
    """A value as JSON.

    Raises:
        ValueError: it holds NaN, an infinity, or what JSON does not have.
    """
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
