"""The top level of a JSON body: where its keys and values stand, found in bounded steps.

What lies inside a value is not validated, only bounded: strings, brackets and the characters that
may stand between them. That is enough never to be misled about where a value ends; whoever gets
the body judges the rest of it. The top level itself is read strictly.

Every method that may take long is a generator: each step looks at `STEP_BYTES` at most, a bracket
counting as some of them, the whole of a body at `MOST_VALUES` brackets, and an object at
`MOST_MEMBERS` members.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from typing import Final, NamedTuple, TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Ends with a T; each yield is a good moment to do something else."""

STEP_BYTES: Final = 32 * 1024
_BRACKET_BYTES: Final = 64
_MEMBER_BYTES: Final = 384
"""What a bracket (0.4 µs) and a member (2 µs) cost, as much as so many bytes of text."""
MOST_VALUES: Final = 128 * 1024
MOST_MEMBERS: Final = 512
"""Of one object that is read: what is then done with them takes no steps."""
NAME_BYTES: Final = 512
"""What of a longer key is its name: enough to tell that no one knows it."""

_RUN: Final = re.compile(
    rb'(?:[ \t\n\r,:0-9A-Za-z+.\-]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL
)
"""Inside a value: all up to the next bracket, or to a string that ends beyond the step."""
_TEXT: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_KEY: Final = re.compile(
    rb'[ \t\n\r]*+("[^"\\]*+(?:\\.[^"\\]*+)*+")[ \t\n\r]*+:[ \t\n\r]*+', re.DOTALL
)
_SCALAR: Final = re.compile(
    rb"(?:true|false|null|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+\-]?[0-9]++)?+)"
    rb"(?=[ \t\n\r,}\]])"
)
_WHITE: Final = re.compile(rb"[ \t\n\r]*+")
_AFTER: Final = re.compile(rb"[ \t\n\r]*+[,}]")
_CONTROL: Final = re.compile(rb"[\x00-\x1f]")
_QUOTE, _BACKSLASH, _CLOSE = b'"\\}'
_CLOSING: Final = {b"{"[0]: b"}"[0], b"["[0]: b"]"[0]}


class NotJson(ValueError):
    """The body is not a JSON object."""


class TooMuch(ValueError):
    """It cannot be looked at within the bounds."""


class Member(NamedTuple):
    """`body[start:at]` is the key up to its value, `body[at:end]` the value."""

    name: bytes
    """The key as UTF-8, its escapes undone; of a long one the first `NAME_BYTES`."""
    start: int
    at: int
    end: int


class Object(NamedTuple):
    """An object of the body: `body[start:end]`, braces included; its members in their order."""

    start: int
    end: int
    members: list[Member]

    def last(self, name: bytes) -> Member | None:
        """The member of that name that counts: of several, the last."""
        found = None
        for member in self.members:
            if member.name == name:
                found = member
        return found


class Scanner:
    """Reads one body; what it has spent on it counts over all its calls."""

    __slots__ = ("_limit", "_values", "body")

    def __init__(self, body: bytes | bytearray) -> None:
        self.body = body
        self._limit = STEP_BYTES
        self._values = 0

    def whole(self) -> Steps[Object]:
        """The body, which is one object.

        Raises:
            NotJson: it is not.
            TooMuch: it has more than `MOST_MEMBERS` members, or `MOST_VALUES` brackets.
        """
        found = yield from self.members((yield from self.white(0)))
        if (yield from self.white(found.end)) != len(self.body):
            raise NotJson("something follows the object")
        return found

    def members(self, at: int) -> Steps[Object]:
        """The object that begins at `at`."""
        body, members = self.body, list[Member]()
        begin = at
        if body[at : at + 1] != b"{":
            raise NotJson("not an object")
        at = yield from self.white(at + 1)
        if body[at : at + 1] == b"}":
            return Object(begin, at + 1, members)
        while True:
            if at >= self._limit:
                yield from self._pause(at)
            key = _KEY.match(body, at, at + STEP_BYTES)
            if key is None or key.end() == at + STEP_BYTES:
                text, start, value = yield from self._far_key(at)
            else:
                text, start, value = key[1], key.start(1), key.end()
            end = yield from self.value_end(value)
            if len(members) >= MOST_MEMBERS:
                raise TooMuch(f"more than {MOST_MEMBERS} members")
            members.append(Member(_name(text), start, value, end))
            self._spend(at, _MEMBER_BYTES)
            after = _AFTER.match(body, end, end + STEP_BYTES)
            at = after.end() if after else (yield from self._far_after(end))
            if body[at - 1] == _CLOSE:
                return Object(begin, at, members)

    def value_end(self, at: int) -> Steps[int]:
        """Where the value that begins at `at` ends."""
        body = self.body
        first = body[at] if at < len(body) else 0
        if first == _QUOTE:
            short = _STRING.match(body, at, at + STEP_BYTES)
            return short.end() if short else (yield from self._string_end(at))
        if first in _CLOSING:
            return (yield from self._nested_end(at))
        scalar = _SCALAR.match(body, at, at + STEP_BYTES)
        if scalar is None:
            raise NotJson("a value is none")
        return scalar.end()

    def white(self, at: int) -> Steps[int]:
        """Past white space."""
        while True:
            stop = at + STEP_BYTES
            found = _WHITE.match(self.body, at, stop)
            at = found.end() if found else at
            if at < stop:
                return at
            yield from self._pause(at)

    def _nested_end(self, at: int) -> Steps[int]:
        """Past the bracket that closes the one at `at`; a loop of C calls, one a bracket."""
        body, size, run = self.body, len(self.body), _RUN.match
        closers: list[int] = []
        while True:
            closing = _CLOSING.get(body[at])
            if closing is not None:
                closers.append(closing)
                at += 1
                self._spend(at)
            elif closers[-1] == body[at]:
                closers.pop()
                at += 1
                if not closers:
                    return at
                self._spend(at)
            elif body[at] == _QUOTE:
                at = yield from self._string_end(at)
            else:
                raise NotJson("brackets do not match, or a character has no place")
            while True:
                if at >= self._limit:
                    yield from self._pause(at)
                stop = self._limit
                found = run(body, at, stop)
                at = found.end() if found else at
                if at < stop or at >= size:
                    break
            if at >= size:
                raise NotJson("it ends inside a value")

    def _string_end(self, at: int) -> Steps[int]:
        """Past the string that begins at `at`, however long."""
        body, size = self.body, len(self.body)
        at += 1
        while at < size:
            if at >= self._limit:
                yield from self._pause(at)
            stop = self._limit
            quote = body.find(b'"', at, stop)
            if body.find(b"\\", at, stop if quote < 0 else quote) < 0:
                if quote >= 0:
                    return quote + 1
                at = stop
                continue
            found = _TEXT.match(body, at, stop)
            at = found.end() if found else at
            if at < size and at < stop:
                if body[at] == _QUOTE:
                    return at + 1
                at += 2  # a backslash that the step's end parts from what it escapes
        raise NotJson("it ends inside a string")

    def _far_key(self, at: int) -> Steps[tuple[bytes, int, int]]:
        """(key, its place, its value's place) where much white space stands around it."""
        at = yield from self.white(at)
        name = _STRING.match(self.body, at, at + STEP_BYTES)
        if name is None:
            if self.body[at : at + 1] == b'"' and at + STEP_BYTES < len(self.body):
                raise TooMuch("a key is too long")
            raise NotJson("a member has no key")
        colon = yield from self.white(name.end())
        if self.body[colon : colon + 1] != b":":
            raise NotJson("a key has no value")
        return name[0], at, (yield from self.white(colon + 1))

    def _far_after(self, end: int) -> Steps[int]:
        at = yield from self.white(end)
        if self.body[at : at + 1] not in (b",", b"}"):
            raise NotJson("neither a comma nor the end follows a value")
        return at + 1

    def _spend(self, at: int, like_bytes: int = _BRACKET_BYTES) -> None:
        self._limit = max(self._limit - like_bytes, at)
        self._values += 1
        if self._values > MOST_VALUES:
            raise TooMuch(f"more than {MOST_VALUES} values")

    def _pause(self, at: int) -> Steps[None]:
        yield
        self._limit = at + STEP_BYTES


def _name(key: bytes | bytearray) -> bytes:
    """A key's text, as far as it is looked at.

    Raises:
        NotJson: it holds a control character, an escape that is none, or no UTF-8.
    """
    try:
        if _BACKSLASH not in key and key.isascii() and not _CONTROL.search(key):
            return bytes(key[1 : min(len(key) - 1, NAME_BYTES + 1)])
        text: str = json.loads(key.decode())
    except ValueError:
        raise NotJson("a key is no string") from None
    return text[:NAME_BYTES].encode("utf-8", "surrogatepass")[:NAME_BYTES]


def run(steps: Steps[T]) -> T:
    """All steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
