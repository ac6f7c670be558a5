"""No step of choosing holds the loop for a millisecond, whatever a body holds and an arm wants."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from relay.test_relay_body_scan import STEP_NS, steps_of

from shadow.body.staying import HOLDERS
from shadow.body.wish import Wish
from shadow.capture.request import Request
from shadow.choosing.conversations import Conversations
from shadow.choosing.routing import Router
from shadow.choosing.sampling import Sampler
from shadow.relay.head import parse_request

KIB = 1024


def items(name: bytes, each: bytes, n: int, last: bytes = b"{}") -> bytes:
    """A member that is a list of n such items, and a last."""
    return b'"%b":[%b%b]' % (name, (each + b",") * n, last)


def names(form: bytes, n: int) -> bytes:
    return b",".join(b'"%b":1' % (form % each) for each in range(n))


def said(content: bytes) -> bytes:
    """One message of the user's."""
    return b'"messages":[{"role":"user",%b}]' % content


PAD = b'"pad":"' + b"A" * 300 * KIB + b'"'
USER, SYSTEM = b'{"role":"user","content":"x"}', b'{"role":"system","content":"s"}'
TOOL = b'{"type":"function","function":{"name":"f","parameters":{}}}'
BODIES = {
    "empty objects": items(b"messages", b"{}", 1000),
    "more of them": items(b"messages", b"{}", 5300),
    "lists": items(b"a", b"[]", 3000),
    "more lists": items(b"a", b"[]", 4050),
    "names": names(b"%x", 500),
    "new names": names(b"n%x", 1500),
    "credentials": names(b"%x_token", 500),
    "humps": names(b"aB%xTokenIsh", 500),
    "humps to scan": PAD + b"," + names(b"aB%xTokenIsh", 500),
    "metadata": b'"metadata":{' + names(b"%x_token", 500) + b"}",
    "long names": names(b"%05x" + b"a" * 16 * KIB, 500),
    "few long names": names(b"%02x" + b"aB" * 2000 + b"TokenIsh", 62),
    "few longer ones": names(b"%02x" + b"aB" * 112 + b"TokenIsh", 62),
    "odd names": names(b"%02x" + b"aBcD" * 13 + b"Account", 62),
    "odd names to scan": PAD + b"," + names(b"%03x" + b"aBcD" * 13 + b"Account", 500),
    "some odd names": names(b"%02x" + b"aBcD" * 13 + b"Accounts", 30),
    "odd names in each": b",".join(
        b'"%b":{%b}' % (each, names(b"%02x" + b"aBcD" * 13 + b"Account", 60)) for each in HOLDERS
    ),
    "names in escapes": names(b"%03x" + b"\\u0061" * 3 * KIB, 200),
    "in extra_body": PAD + b',"extra_body":{' + names(b"aB%x_token", 500) + b"}",
    "messages": items(b"messages", USER, 1000, USER),
    "more messages": items(b"messages", USER, 8000, USER),
    "deep parts": items(b"messages", b'{"content":[{"a":1}]}', 500),
    "parts": said(items(b"content", b"{}", 1000)),
    "parts to scan": PAD + b"," + said(items(b"content", b"{}", 1000)),
    "systems": items(b"messages", SYSTEM, 1000, USER),
    "more systems": items(b"messages", SYSTEM, 5000, USER),
    "tools": items(b"tools", TOOL, 330),
    "more tools": items(b"tools", TOOL, 2000),
    "token ids": items(b"input", b"1", 8000, b"1"),
    "more token ids": items(b"input", b"1", 30_000, b"1"),
    "floats": items(b"input", b"1.2345678901234567e-300", 2600, b"1"),
    "a text": said(b'"content":"' + b"lorem " * 42_000 + b'"'),
    "escapes": said(b'"content":"' + b"\\u00e9" * 42_000 + b'"'),
    "a long text": said(b'"content":"' + b"A" * 1024 * KIB + b'"'),
    "backslashes": b'"messages":"' + b"\\\\" * 256 * KIB + b'"',
    "many texts": items(b"messages", b'"lorem ipsum dolor"', 30_000, b"0"),
    "almost a file": items(b"messages", b'"file_i"', 40_000, b"0"),
    "almost a container": items(b"tools", b'"containe"', 40_000, b"0"),
    "one model often": PAD + b"," + b",".join([b'"model":"llama"'] * 500),
    "a bias": b'"logit_bias":{' + names(b"%d", 500) + b"}",
    "a large bias": b'"logit_bias":{' + names(b"%d", 5_000) + b"}",
    "brackets": items(b"a", b"[]", 20_000, b"1"),
    "depth": b'"a":' + b"[" * 20_000 + b"]" * 20_000,
    "no JSON": b'"a":NaN,"b":"' + b"key dolor tokento " * 6_000 + b'"',
    "no JSON, texts": b'"a":NaN,' + b'"key" ' * 10_000,
    "no JSON, words": b'"a":NaN,"b":"' + b"service_accountapi_key" * 4_000 + b'"',
    "no JSON, forms": b'"a":NaN,"b":"' + b"%41pple" * 6_000 + b'"',
    "no JSON, escapes": b'"a":NaN,' + b'"\\u0066ile' * 6_000,
}
FULL = Wish(
    {"llama": "x"},
    {"temperature": b"0.5", "a.b": b"[1]", "n": b"2", "logit_bias.5": b"1", "extra_body.n": b"1"},
    ("top_p", "a.c", "user"),
    include_usage=True,
    copies=100,
)


def arm(name: str, wish: Wish, role: str = "candidate", key: str = "request"):
    return SimpleNamespace(name=name, wish=wish, role=role, key=key, sample=1.0)


ARMS = {
    "plain": [arm("a", Wish({}, {}))],
    "full": [arm("a", FULL), arm("c", FULL, "control")],
    "conversation": [arm("a", Wish({}, {}), key="conversation")],
}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("wishes", ARMS)
def test_no_step_holds_the_loop(wishes, body):
    """From the first question to the copies: each step's CPU."""
    arms = ARMS[wishes]
    text = b'{"model":"llama",' + BODIES[body] + b"}"
    held = SimpleNamespace(open_bytes=0, room=lambda more: True)
    head = parse_request(b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 5")
    probed = 1.0 if wishes == "full" else 0.0

    def steps():
        router = Router(arms, Sampler("e"), Conversations("e", None), held, 8192 * KIB, probed)
        request = Request(head, "a" * 32, 1, 1, body=text)
        yield router.untouched(request)
        yield from router.routes(request, arms)

    assert max(steps_of(steps)) < STEP_NS
