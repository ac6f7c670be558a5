"""What is stateful is never sent a second time, however it is spelled, framed or coded."""

from __future__ import annotations

import itertools
import json
import time
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shadow.relay.head import parse_request
from shadow.relay.stale import may_be_retried, retryable, stateful

if TYPE_CHECKING:
    from shadow.relay.upstream import Upstream

CHAT = b"/v1/chat/completions"


def told(body: bytes, path: bytes = CHAT, fields: bytes = b"", cuts: tuple[int, ...] = ()) -> bool:
    """Whether a request with this body is stateful; in chunks that end at `cuts`, if there are any."""
    if cuts:
        edges = sorted({0, *(cut % (len(body) + 1) for cut in cuts), len(body)})
        parts = [body[a:b] for a, b in itertools.pairwise(edges)]
        framed = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
        start = b"POST %b HTTP/1.1\r\nHost: h\r\n%bTransfer-Encoding: chunked" % (path, fields)
    else:
        framed = body
        length = len(body)
        start = b"POST %b HTTP/1.1\r\nHost: h\r\n%bContent-Length: %d" % (path, fields, length)
    return stateful(parse_request(start), start + b"\r\n\r\n" + framed)


@pytest.mark.parametrize(
    "body",
    [
        b'{"previous_response_id": "r1"}',
        b'{"conversation" :\n"c1"}',
        b'{"store":true}',
        b'{"background": true}',
        b'{"thread_id":"t"}',
        b'{"a":{"session_params":{}}}',
        b'{"messages":[{"content":[{"file":{"file_id":"f"}}]}]}',
        b'{"previous\\u005fresponse_id":"r1"}',
        b'{"\\u0073tore":true}',
        '{"store":true}'.encode("utf-16"),
    ],
)
def test_state_however_it_is_spelled(body):
    """Names of the APIs, escapes in a name, another encoding of the text."""
    assert told(body)


@pytest.mark.parametrize(
    "name",
    [
        *("previous_response_id", "conversation", "conversation_id", "store", "background"),
        *("container", "session", "session_id", "session_params", "session_control", "thread_id"),
        *("assistant_id", "file_id", "file_ids", "input_file_id", "vector_store_ids"),
        *("completion_window", "requests", "mcp_servers", "tool_resources"),
        *("server_url", "connector_id"),
    ],
)
@pytest.mark.parametrize("value", [b"true", b"1", b'"yes"', b"[{}]", b'{"a":1}'])
def test_what_the_mirror_calls_stateful_is_not_tried_again(name, value):
    """Calls of other servers in the user's name too; with any value but null and false."""
    assert told(b'{"model":"m","%b" : %b}' % (name.encode(), value))
    assert told(b'{"tools":[{"%b":%b}]}' % (name.encode(), value))
    assert not told(b'{"%b": null, "b":1}' % name.encode())
    assert not told(b'{"%b" :\n false}' % name.encode())


@pytest.mark.parametrize(
    "body", [b'{"prompt": {"id":"p"}}', b'{"input":[{"type":"item_reference","id":"i"}]}']
)
def test_templates_and_references_are_state(body):
    """Of the Responses API: they stand at the engine."""
    assert told(body)
    assert not told(b'{"prompt":"say"}')


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"store": false, "previous_response_id": null}',
        b'{"messages":[{"content":"caf\\u00e9: \\"store\\" it"}],"model":"m"}',
        json.dumps({"messages": [{"arguments": json.dumps({"store": 1, "é": 2})}]}).encode(),
    ],
)
def test_what_keeps_nothing(body):
    """Text that speaks of such fields, arguments of a tool, and `store: false`."""
    assert not told(body)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 100), min_size=1, max_size=12))
def test_state_in_chunks(cuts):
    """Where the chunks end changes nothing: a name may be cut by them."""
    assert told(b'{"model":"m","previous_response_id":"r1"}', cuts=tuple(cuts))
    assert told(b'{"model":"m","store":true}', cuts=tuple(cuts))
    assert not told(b'{"model":"m","store":false}', cuts=tuple(cuts))


class Gone:
    """A reused connection that closed at once, without a byte."""

    reused, heard = True, False

    def __init__(self) -> None:
        self.first_write_ns = time.monotonic_ns()


@pytest.mark.parametrize(("size", "again"), [(60 * 1024, True), (65 * 1024, False), (2**23, False)])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_post_is_not_looked_through_on_the_loop(size, again, chunked):
    """8 MiB of messages took 0.17 s; so a POST of more than 64 KiB is not tried again."""
    body = b'{"messages":[' + b'{"content":"x"},' * (size // 16) + b"{}]}"
    framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(body)
    start = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n%b" % framing
    sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked else body
    head = parse_request(start)
    if not chunked:
        assert may_be_retried(head, "fresh_close", {CHAT}) == again
    begun = time.thread_time_ns()
    gone = cast("Upstream", Gone())
    assert retryable(gone, head, [start + b"\r\n\r\n", sent]) == again
    assert time.thread_time_ns() - begun < 20_000_000


def test_many_chunks_of_one_byte():
    """More than one call of the framing takes."""
    body = b'{"p":"' + b"x" * 3000 + b'","store":true}'
    assert told(body, cuts=tuple(range(len(body))))


def test_what_cannot_be_looked_into():
    """A coded body, a path that is about state."""
    assert told(b"{}", fields=b"Content-Encoding: gzip\r\n")
    assert told(b"{}", path=b"/v1/threads/t/messages")
    assert told(b"{}", path=b"/v1/responses")
    assert not told(b'{"store":false}', path=b"/v1/responses")


@pytest.mark.parametrize(
    "body",
    [
        b'{"input":"x","metadata":{"store":false}}',
        b'{"input":"x","tools":[{"parameters":{"store":false}}]}',
        b'{"input":[{"store":false}],"store":null}',
        b'{"store":false,"store":null}',
        b'{"store":false',
        b'[{"store":false}]',
        b'{"sessionId":"s","store":false}',
        b'{"session-id":"s","store":false}',
        b'{"previousResponseId":"r","store":false}',
    ],
)
def test_what_the_responses_api_stores_by_default(body):
    """Only the request's own word says that it does not, not one of an object within it."""
    assert told(body, path=b"/v1/responses")
