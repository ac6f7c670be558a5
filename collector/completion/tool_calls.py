"""Join the deltas of tool calls, as real engines index and identify them.

Rules:
1. A delta belongs to the call at its `index`; without one, to the call with its `id`; without
   either, to the call that was spoken of last.
2. It begins a new call all the same where it names another `id` than that call has, or where it
   names a function again although that call's arguments are complete JSON: engines send index 0
   for every parallel call.
3. A name repeated on each delta counts once; a name in pieces is joined. Null arguments are none.
"""

from __future__ import annotations

from typing import Any

from collector.completion.model import ToolCall
from collector.json_text import TooMuch, Unreadable, clean, loads, said

MOST_CALLS = 100_000
"""Of one choice; a call takes a thousand bytes in memory."""
_MOST_LOOKS = 64  # at one call's arguments: a stream of braces must not cost quadratic time
_MOST_LOOKED_AT = 256 * 1024  # characters; so long are the arguments of no two calls on one index


class _Call:
    __slots__ = ("arguments", "id", "looks", "name")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.looks = 0

    def finished(self) -> bool:
        """Whether the arguments so far are a complete JSON object."""
        if not self.arguments or not self.arguments[-1].rstrip().endswith("}"):
            return False
        self.looks += 1
        if self.looks > _MOST_LOOKS or sum(map(len, self.arguments)) > _MOST_LOOKED_AT:
            return False
        try:
            loads("".join(self.arguments).encode("utf-8", "replace"))
        except Unreadable:
            return False
        return True


class ToolCalls:
    """The calls of one choice in the order in which they were first spoken of."""

    __slots__ = ("_by_id", "_by_index", "_calls")

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}

    def add(self, delta: object) -> bool:
        """Take one delta (or a whole call) of OpenAI's shape; says whether it carried text.

        Raises:
            TooMuch: there are more calls than one answer may have.
        """
        if not isinstance(delta, dict):
            return False
        function = delta.get("function")
        function = function if isinstance(function, dict) else {}
        name, given = function.get("name"), delta.get("id")
        name = name if isinstance(name, str) else ""
        arguments = _text(function.get("arguments"))
        index = delta.get("index")
        self.extend(index, given if isinstance(given, str) else "", name, arguments)
        return bool(name or arguments)

    def extend(self, index: object, given: str, name: str, arguments: str) -> None:
        """The same from its parts; `index` is whatever the engine said."""
        call = self._find(index if type(index) is int else None, given, name)
        call.id = call.id or given
        if name and name != call.name:
            call.name += name
        if arguments:
            call.arguments.append(arguments)

    def _find(self, index: int | None, given: str, name: str) -> _Call:
        call = self._by_index.get(index) if index is not None else self._by_id.get(given)
        if call is None and index is None and self._calls and not given:
            call = self._calls[-1]
        if call is None or _begins_another(call, given, name):
            if len(self._calls) >= MOST_CALLS:
                raise TooMuch(f"more than {MOST_CALLS} tool calls")
            call = _Call()
            self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        if given:
            self._by_id[given] = call
        return call

    def freeze(self) -> tuple[ToolCall, ...]:
        """What was joined so far."""
        return tuple(
            ToolCall(clean(call.id) or None, clean(call.name), clean("".join(call.arguments)))
            for call in self._calls
        )


def _begins_another(call: _Call, given: str, name: str) -> bool:
    if given and call.id:
        return given != call.id
    return bool(name and call.name and call.finished())


def _text(arguments: Any) -> str:
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else said(arguments)
