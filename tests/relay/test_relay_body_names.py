"""What is stateful stays with its server; a coded body is undone within bounds; conversations."""

from __future__ import annotations

import gzip
import json
import os
import time
import tracemalloc
import zlib

import brotli
import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st
from relay.test_relay_body_scan import STEP_NS

from shadow.body.coding import Encoded, undone
from shadow.body.conversation import Hash, beginning_in, beginning_of
from shadow.body.names import NAMES, STATEFUL, named, stateful, stateful_path, stateful_tree
from shadow.body.parsed import tree
from shadow.body.scan import Scanner, TooMuch, run

FILE = {"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}
STATE = {
    "chat": {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}]},
    "responses": {"input": [FILE]},
    "messages": {"messages": [{"role": "user", "content": [
        {"type": "tool_result", "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}]}]}]},
    "output": {"input": [{"type": "function_call_output", "output": [{"type": "input_image", "file_id": "f"}]}]},
    "store": {"tools": [{"type": "file_search", "vector_store_ids": ["vs"]}]},
    "mcp": {"tools": [{"type": "mcp", "server_url": "https://mcp", "authorization": "s"}]},
    "connector": {"tools": [{"type": "mcp", "connector_id": "connector_gmail"}]},
    "item": {"input": [{"type": "item_reference", "id": "msg_1"}]},
    "template": {"prompt": {"id": "pmpt_1", "version": "2"}},
    "container": {"tools": [{"type": "code_interpreter", "container": "cntr_1"}]},
    "dynamo": {"nvext": {"session_control": {"action": "bind"}}},
}  # fmt: skip
NO_STATE = {
    "plain": {"messages": [{"role": "user", "content": 'say "file_id" and "store"'}]},
    "schema": {"tools": [{"function": {"parameters": {"properties": {"file_id": {}, "store": {}}}}}]},
    "schema of an address": {"tools": [{"function": {"parameters": {"properties": {"server_url": {}}}}}]},
    "tool": {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "input": {"file_id": "x"}}]}]},
    "words of an item": {"input": [{"role": "user", "content": "item_reference"}]},
    "text": {"prompt": "say {}"},
    "inline": {"input": [{"role": "user", "content": [{"type": "input_file", "file_data": "…"}]}]},
}  # fmt: skip


def scanned(body: bytes) -> bool:
    """By the scanner, whether the body is bytes or came in pieces."""
    said = [run(stateful(b, run(Scanner(b).whole()))) for b in (body, bytearray(body))]
    assert said[0] == said[1]
    return said[0]


def quick(body: bytes) -> bool:
    found = tree(body)
    assert found is not None
    return not NAMES.isdisjoint(found) or stateful_tree(found)


@pytest.mark.parametrize("name", STATE)
def test_what_points_at_state(name):
    """Files and sessions within messages and tools, quickly and by the scanner; escaped too."""
    body = json.dumps(STATE[name]).encode()
    assert quick(body)
    assert scanned(body)
    escaped = body.replace(b"file_id", rb"f\u0069le_id").replace(
        b"session_control", rb"session\u005Fcontrol"
    )
    assert scanned(escaped.replace(b"vector_store_ids", rb"vector\u005fstore_ids"))
    assert quick(escaped)


@pytest.mark.parametrize("name", NO_STATE)
def test_what_does_not(name):
    """Words of a prompt, of a schema, of a tool's arguments."""
    assert not quick(json.dumps(NO_STATE[name]).encode())


@pytest.mark.parametrize("name", sorted(STATEFUL))
def test_a_stateful_field(name):
    """Any value but null and false, in any of its duplicates; only at the top level."""
    key = name.decode()
    for value in ("true", '"x"', '{"id":"c"}', "[1]", "1"):
        for body in (f'{{"{key}":{value}}}', f'{{"{key}":{value},"{key}":false}}'):
            assert scanned(body.encode())
            assert quick(body.encode())
    for body in (
        f'{{"{key}":null}}',
        f'{{"{key}": false }}',
        f'{{"metadata":{{"{key}":true}}}}',
        f'{{"a":"{key}"}}',
    ):
        assert not scanned(body.encode())


def test_no_spelling_evades():
    """Each character of each name escaped or not: it is seen, in JSON and in what is none."""
    for name in sorted(NAMES):
        for at, character in enumerate(name):
            for escaped in (f"\\u{ord(character):04x}", f"\\u{ord(character):04X}"):
                body = f'{{"model":"m","{name[:at]}{escaped}{name[at + 1 :]}":1}}'.encode()
                assert quick(body)
                assert run(named(body[:-1]))
        assert run(named(f'["{name}"'.encode()))
    assert run(named('{"store":true}'.encode("utf-16")))
    assert run(named(b" " * 32760 + b'"previous_response_id":NaN'))
    assert not run(named(b'{"model":NaN,"messages":[]'))


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (b"/v1/chat/completions", False), (b"/v1/responses", False), (b"/v1/messages", False),
        (b"/v1/batches", True), (b"/v1/messages/batches", True), (b"/v1/chat/completions/batch", True),
        (b"/v1/files", True), (b"/v1/responses/resp_1/cancel", True), (b"/v1/threads/t/runs", True),
    ],
)  # fmt: skip
def test_a_path_may_be_stateful(path, said):
    """Batches, files and what belongs to one stored answer, whatever the body says."""
    assert stateful_path(path) is said


def test_long_paths_are_not_remembered():
    """Whoever asks for many of them fills no memory with them, and the answer is the same."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for n in range(200):
            path = b"/v1/responses/%d" % n + b"x" * 60_000
            assert stateful_path(path)
            assert not stateful_path(b"/v1/%d" % n + path[14:])
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1_000_000


TEXT = b'{"model":"m","messages":[' + b'{"role":"user","content":"hello"},' * 4000 + b"1]}"
RAW = zlib.compressobj(9, zlib.DEFLATED, -15)
CODED = {
    "gzip": gzip.compress(TEXT), "x-gzip": gzip.compress(TEXT[:9]) + gzip.compress(TEXT[9:]),
    "deflate": zlib.compress(TEXT), "Deflate": RAW.compress(TEXT) + RAW.flush(),
    "br": brotli.compress(TEXT, quality=5), "zstd": zstd.compress(TEXT),
    "gzip, br": brotli.compress(gzip.compress(TEXT), quality=5), "identity": TEXT, "": TEXT,
}  # fmt: skip


def undo(coding: str, body: bytes, most: int = 2**23) -> bytes:
    return bytes(run(undone([coding.encode()], body, most)))


@pytest.mark.parametrize("coding", CODED)
def test_a_coding_is_undone(coding):
    """Members, layers, raw deflate: the client's bytes."""
    assert undo(coding, CODED[coding]) == TEXT


ZEROS = b'{"a":"' + b"0" * 6_000_000 + b'"}'
STEPPED = {
    **CODED,
    "gzip": gzip.compress(ZEROS),
    "deflate": zlib.compress(os.urandom(2**20)),
    "br": brotli.compress(ZEROS, quality=5, lgwin=24),
    "zstd": zstd.compress(ZEROS, 19),
}


@pytest.mark.parametrize("coding", STEPPED)
def test_each_step_of_a_coding_is_short(coding):
    """Of what unfolds to thousands of times its size, too: below a millisecond of this thread's
    CPU, all of them in one of several runs (how often a thread is waited for is never the same).
    Brotli's decoder gives nothing before its window is full, megabytes in one call: that is not
    this thread's.
    """
    assert any(
        longest(undone([coding.encode()], STEPPED[coding], 2**23)) < STEP_NS for _ in range(9)
    )


def longest(steps) -> int:
    """The CPU of the longest step, ns."""
    spent, more = 0, True
    while more:
        begun = time.thread_time_ns()
        more = next(steps, None) is not None or steps.gi_frame is not None
        spent = max(spent, time.thread_time_ns() - begun)
    return spent


@pytest.mark.parametrize(
    ("coding", "body"),
    [(name, body[:-9]) for name, body in CODED.items() if name not in ("identity", "")]
    + [(name, b"not it at all" * 9) for name in CODED if name not in ("identity", "")]
    + [("gzip", CODED["gzip"] + b"more"), ("br", CODED["br"] + b"more"), ("gzip", b""), ("compress", TEXT),
       ("gzip,gzip,gzip", TEXT), ("gzip", gzip.compress(b"") * 1001)],
)  # fmt: skip
def test_what_is_not_in_its_coding(coding, body):
    """Cut, damaged, unknown, followed by something, empty, or a thousand members: not read."""
    with pytest.raises(Encoded):
        undo(coding, body)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_a_bomb_is_bounded(coding):
    """64 MiB of zeros: given up at the bound."""
    zeros = bytes(2**26)
    body = {"gzip": gzip.compress, "deflate": zlib.compress, "br": lambda b: brotli.compress(b, quality=1),
            "zstd": zstd.compress}[coding](zeros)  # fmt: skip
    with pytest.raises(TooMuch):
        undo(coding, body)


MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "developer"])},
    optional={"content": st.text(max_size=8) | st.lists(st.fixed_dictionaries(
        {"type": st.just("text"), "text": st.text(max_size=5)}), max_size=2) | st.none()},
)  # fmt: skip
SALTED = Hash("e")


def hashes(request: dict[str, object], tenant: bytes = b"t") -> str | None:
    """By the parsed body and by the scanner, which say the same."""
    body = json.dumps(request).encode()
    scanner = Scanner(body)
    begun = run(beginning_of(scanner, run(scanner.whole())))
    found = tree(body)
    assert found is None or beginning_in(found) == begun
    return None if begun is None else SALTED.of(tenant, begun)


@settings(max_examples=100, deadline=None)
@given(st.lists(MESSAGE, max_size=5), st.lists(MESSAGE, max_size=3))
def test_all_turns_are_one_conversation(first, more):
    """What follows the first user's message counts for nothing; without one there is none."""
    begun = hashes({"messages": first})
    assert (begun is None) == all(message["role"] != "user" for message in first)
    if begun is not None:
        assert hashes({"messages": first + more, "temperature": 1}) == begun


def test_what_makes_a_conversation():
    """Tenant, system, first message; not spelling, parts or cache markers; salted."""
    user = {"role": "user", "content": "hi"}
    one = hashes({"messages": [{"role": "system", "content": "s"}, user]})
    parts = [
        {"type": "text", "text": "h"},
        {"type": "text", "text": "i", "cache_control": {"type": "ephemeral"}},
    ]
    same = {"messages": [{"content": "s", "role": "system"}, {"role": "user", "content": parts}]}
    assert hashes(same) == one == hashes({"system": "s", "messages": [user]})
    others = [
        hashes({"messages": [user]}),
        hashes({"messages": [{"role": "system", "content": "s"}, user]}, b"other"),
        hashes(
            {"messages": [{"role": "system", "content": "sh"}, {"role": "user", "content": "i"}]}
        ),
        hashes({"input": "hi", "instructions": "s"}),
        Hash("f").of(b"t", [(b"system", b"s"), (b"user", b"hi")]),
    ]
    assert len({one, *others}) == 6
    assert hashes({"input": "hi"}) == hashes({"input": [user]})
    assert hashes({"prompt": "hi"}) is None


def test_a_beginning_is_bounded():
    """Sixty-three messages may stand before the user's first; of hundreds of parts each counts as
    it is written.
    """
    system, user = {"role": "system", "content": "s"}, {"role": "user", "content": "hi"}
    assert hashes({"messages": [*[system] * 63, user]}) is not None
    assert hashes({"messages": [*[system] * 64, user]}) is None

    def of(parts: int, marker: str) -> str | None:
        part = {"type": "text", "text": "x", "cache_control": {"type": marker}}
        return hashes({"messages": [{"role": "user", "content": [part] * parts}]})

    assert of(256, "a") == of(256, "b")
    assert of(257, "a") == of(257, "a") != of(257, "b")


def test_a_huge_first_message():
    """8 MiB, an image as a rule: hashed as it is spelled, in short steps."""
    image = os.urandom(2**20).hex() * 4
    request = {
        "messages": [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": image}}]}
        ]
    }
    again = json.loads(json.dumps(request))
    again["messages"] += [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]
    assert hashes(request) == hashes(again) is not None


def test_depth_makes_no_fault():
    """orjson reads 1,024 levels and writes 254: deeper parts count as one, and nothing is raised."""
    deep = json.loads("[" * 400 + "]" * 400)
    nested = {"messages": [{"role": "user", "content": [deep]}]}
    assert hashes(nested) == hashes({"messages": [{"role": "user", "content": [[deep]]}]})
    assert hashes(nested) != hashes({"messages": [{"role": "user", "content": [1]}]})
