"""Fields that say more than a prompt: what points at state of a server, and what steers an engine.

A stateful request means something only where its state is: a copy of it is an error there, or
changes the state twice; so is one whose answer calls other servers in the user's name (MCP). A
steering field names ranks, hosts, sessions' caches and ids of one deployment, a credential opens
the client's: neither travels to another.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from shadow.body.scan import Member, Object, Scanner, Steps, TooMuch
from shadow.credentials import ANYWHERE as A_CREDENTIAL

STATEFUL: Final = frozenset(
    {
        b"previous_response_id",
        b"conversation",
        b"conversation_id",
        b"store",
        b"background",
        b"container",
        b"session",
        b"session_id",
        b"session_params",
        b"session_control",
        b"thread_id",
        b"assistant_id",
        b"file_id",
        b"file_ids",
        b"input_file_id",
        b"completion_window",
        b"requests",
        b"mcp_servers",
        b"tool_resources",
        b"data_sources",
        b"dataSources",
    }
)
"""At the top level, with any value but null and false; `requests` and the two before it are
batches', the last two a cloud's indices, opened by the client's key that stands within."""
STEERING: Final = frozenset(
    {
        b"kv_transfer_params",
        b"ec_transfer_params",
        b"disaggregated_params",
        b"data_parallel_rank",
        b"routed_dp_rank",
        b"disagg_prefill_dp_rank",
        b"bootstrap_host",
        b"bootstrap_port",
        b"bootstrap_room",
        b"request_id",
        b"rid",
        b"priority",
        b"cache_salt",
        b"extra_key",
        b"id_slot",
        b"backend_instance_id",
        b"nvext",
        b"conversation_params",
        b"api_base",
        b"base_url",
    }
)
"""Of vLLM, SGLang, TensorRT-LLM, llama.cpp, Dynamo, and gateways; at the top level."""
CREDENTIALS: Final = frozenset(
    {b"extra_headers", b"headers", b"extra_query", b"user_config", b"model_list", b"fallbacks"}
)
"""Objects of gateways that hold credentials anywhere in them: fields and parameters to be sent on,
routes with keys of their own. What says by its name that it is one: `shadow.credentials`."""
AS_THE_BODY: Final = b"extra_body"
"""Its members are the body's own to a gateway that merges it: they may steer and point at state."""
MOST_DEEP: Final = 4
"""Objects within objects of that kind."""
STAYING: Final = STEERING | CREDENTIALS
"""Taken out of every copy, by name."""
NAMES: Final = frozenset(name.decode() for name in STATEFUL | STAYING)
_NOTHING: Final = frozenset({b"null", b"false"})
_PATHS: Final = re.compile(
    rb"/(?:batch|batches|files|uploads|containers|conversations|threads|assistants|vector_stores"
    rb"|fine_tuning|responses/[^/]+)(?:/|$)"
)
_FILE: Final = "file_id"
_OF_TOOLS: Final = ("vector_store_ids", "container", "server_url", "connector_id")
"""The last two are MCP's: whose tools are called, with the client's own token beside them."""
_ITEM: Final = "item_reference"
"""The type of an input's item that stands for one of an earlier answer, by its id."""
_NESTED: Final = {
    b"messages": (_FILE,),
    b"input": (_FILE, _ITEM),
    b"system": (_FILE,),
    b"tools": _OF_TOOLS,
    b"nvext": ("session_control",),
}
"""What, anywhere in these, points at a server's state."""
ANYWHERE: Final = STATEFUL | {each.encode() for names in _NESTED.values() for each in names}
"""Every name that may point at state, for who does not look where it stands."""
_DOWN: Final = ("content", "source", "file", "output")
"""Where a part of a message holds its file; not the arguments of a tool, which are the user's."""


def _any_spelling(names: tuple[str, ...]) -> re.Pattern[bytes]:
    """One of these as a JSON string, whichever of its characters are escaped."""
    spelled = ("".join(rf"(?:{c}|\\u00(?i:{ord(c):02x}))" for c in name) for name in sorted(names))
    return re.compile(f'"(?:{"|".join(spelled)})"'.encode())


_SPELLED: Final = {key: _any_spelling(names) for key, names in _NESTED.items()}
_ANY_NAME: Final = re.compile(rb"\x00|" + _any_spelling((*NAMES, _FILE, _ITEM, *_OF_TOOLS)).pattern)
"""Also NUL: some servers take UTF-16, where a name would look otherwise."""
_ANY_STEP: Final = 3 * 1024
"""Of a search for all of these, which takes up to 0.2 µs a byte."""
_NAME_STEP: Final = 16 * 1024
"""Of a search for a few."""
_LONGEST: Final = 6 * 32
"""No name is longer, with each character escaped."""


def stateful_path(path: bytes) -> bool:
    """Whether a path is about a server's state whatever the body says."""
    return (_remembered if len(path) <= _REMEMBERED_BYTES else _about_state)(path)


def _about_state(path: bytes) -> bool:
    return _PATHS.search(path) is not None


_REMEMBERED_BYTES: Final = 256
"""Longer paths are looked at each time: a client could fill the memory with them."""
_remembered: Final = lru_cache(1024)(_about_state)


def stateful_tree(tree: dict[str, Any]) -> bool:
    """Whether messages, tools or a prompt point at state; for a body that was parsed anyway."""
    for key in ("messages", "input", "system"):
        items = tree.get(key)
        if items.__class__ is list and _refers(items):
            return True
    if tree.get("prompt").__class__ is dict:  # of responses: the id of a template
        return True
    tools = tree.get("tools")
    return tools.__class__ is list and any(
        tool.__class__ is dict and not tool.keys().isdisjoint(_OF_TOOLS) for tool in tools
    )


def _refers(items: list[Any]) -> bool:
    for item in items:
        if item.__class__ is dict:
            if len(item) == 2 and item.get("content").__class__ is str:  # as a rule: role, content
                continue
            if _part_refers(item):
                return True
    return False


def _part_refers(part: dict[str, Any]) -> bool:
    if _FILE in part or part.get("type") == _ITEM:
        return True
    for key in _DOWN:
        inner: Any = part.get(key)
        kind = inner.__class__
        if kind is list and _refers(inner):
            return True
        if kind is dict and _part_refers(inner):
            return True
    return False


def stateful(body: bytes | bytearray, found: Object, deep: int = 0) -> Steps[bool]:
    """Whether the body, read as `found`, points at state. In a large one a name counts wherever it
    stands within the messages.

    Raises:
        NotJson: an object whose members are the body's own is none; TooMuch: it is too deep.
    """
    for member in found.members:
        if member.name in STATEFUL and not is_nothing(body, member):
            return True
        is_object = body[member.at] == b"{"[0]
        if member.name == b"prompt" and is_object:
            return True
        spelled = _SPELLED.get(member.name)
        if spelled is not None and (yield from _holds(body, member, spelled)):
            return True
        if member.name == AS_THE_BODY and is_object:
            if deep == MOST_DEEP:
                raise TooMuch("objects within objects")
            inner = yield from Scanner(body).members(member.at)
            if (yield from stateful(body, inner, deep + 1)):
                return True
    return False


def is_nothing(body: bytes | bytearray, member: Member) -> bool:
    """Whether a member's value is null or false."""
    return bytes(body[member.at : min(member.end, member.at + 6)]) in _NOTHING


def _holds(body: bytes | bytearray, member: Member, names: re.Pattern[bytes]) -> Steps[bool]:
    for at in range(member.at, member.end, _NAME_STEP):
        if names.search(body, at, min(at + _NAME_STEP + _LONGEST, member.end)):
            return True
        if member.end - at > _NAME_STEP:
            yield
    return False


def named(body: bytes | bytearray) -> Steps[bool]:
    """Whether any of the names, or a credential's, stands anywhere in a body that is no JSON
    object.
    """
    for at in range(0, len(body), _ANY_STEP):
        text = bytes(body[at : at + _ANY_STEP + _LONGEST])
        if _ANY_NAME.search(text) or A_CREDENTIAL.search(text.lower()):
            return True
        yield
    return False
