"""A capture's record with redaction on: nothing that was found is in any of its bytes."""

from __future__ import annotations

import gzip
import json
import zlib

import brotli
import pytest
from backports import zstd
from redaction.world import SECRETS, redactor, stream, text_of

from collector.decode import completion_of, last_byte_ns_of
from collector.measures import failure_of, measure
from shadow.capture.capture import Capture
from shadow.capture.request import Request
from shadow.capture.side import Origin, Side
from shadow.config.subject import Subject
from shadow.exchange import Exchange, decode
from shadow.redaction.kept import UNDONE
from shadow.redaction.records import Veil
from shadow.relay.answer import parse_answer
from shadow.relay.head import parse_request

EMAIL = SECRETS["email"]
HEAD = (
    "POST /v1/john.doe%40example.com/chat/completions?key=sk-abcdefghijklmnop1234 HTTP/1.1\r\n"
    "Host: h\r\nUser-Agent: ua john.doe@example.com\r\nX-Request-Id: TICKET-1\r\n"
    "X-User-Id: john.doe@example.com\r\nX-Team: a 4111111111111111 b\r\nCookie: c"
)
ANSWER = "HTTP/1.1 {} X\r\nContent-Type: {}\r\nX-Request-Id: 10.20.30.40\r\nX-Secret: s{}"
REQUEST = json.dumps(
    {"model": f"ft:{EMAIL}", "messages": [{"role": "user", "content": f"I am {EMAIL}"}]}
).encode()


def record(
    body: bytes,
    kind: str = "text/event-stream",
    coding: str = "",
    status: int = 200,
    request: bytes = REQUEST,
    head: str = HEAD,
    limits: tuple[int, int] = (2**20, 2**16),
    pieces: int = 7,
    error: str | None = None,
    veil: bool = True,  # noqa: FBT001, FBT002
    transport: str = "complete",
    **said,
) -> Exchange:
    """The record of an answer that came in pieces, a millisecond each."""
    redact = Veil(redactor(**{"headers": ["x-team"]} | said)) if veil else None
    side = Side(
        Origin("e", "h", "w", "b"),
        "primary",
        "primary",
        1.0,
        None,
        *limits,
        subject=Subject(header="x-user-id", salt="0123456789abcdef"),
        veil=redact,
    )
    capture = Capture(side, Request(parse_request(head.encode()), "p", 1, 1, request), 2, 0, 0)
    capture.sent_ns = capture.first_byte_ns = 1
    fields = f"\r\nContent-Encoding: {coding}" if coding else ""
    capture.head = parse_answer(ANSWER.format(status, kind, fields).encode(), bodyless=False)
    size = -(-len(body) // pieces) or 1
    for n, at in enumerate(range(0, len(body), size)):
        capture.append(1 + (n + 1) * 1_000_000, [body[at : at + size]])
    capture.end(10_000_000, transport, error)
    value = capture.message(1).value
    exchange = decode(value)
    assert isinstance(exchange, Exchange)
    assert exchange.captured_bytes == len(exchange.body)
    return exchange


def everything(exchange: Exchange) -> bytes:
    """All that it says, bodies unpacked."""
    told = exchange.model_dump_json(exclude={"body", "request"}).encode()
    return told + exchange.body + (exchange.request or b"")


def test_every_field():
    """Path, query, header values, model, subject, error, request and answer."""
    exchange = record(stream(["hi john.d", "oe@example.com"]), error=f"said {EMAIL}", transport="reset")  # fmt: skip
    said = everything(exchange)
    for secret in (b"john", b"example.com", b"TICKET-1", b"4111", b"10.20.30.40", b"sk-abc"):
        assert secret not in said, secret
    assert exchange.path == "/v1/" + "*" * 20 + "/chat/completions"
    assert exchange.request_facts.model == "ft:" + "*" * 20
    assert exchange.request_facts.turns == 1
    assert ("X-Team", "a **************** b") in exchange.request_headers
    assert "x-user-id" not in {name.lower() for name, _ in exchange.request_headers}
    assert exchange.error == "said " + "*" * 20
    assert exchange.redactions == {"email": 7, "ticket": 1, "card": 1, "ip": 1}
    assert json.loads(exchange.request)["messages"][0]["content"] == "I am " + "*" * 20


def test_without_redaction_a_record_is_as_it_was():
    exchange = record(stream(["hi john.doe@example.com"]), veil=False)
    assert exchange.body == stream(["hi john.doe@example.com"])
    assert exchange.redactions == {}


def test_marks_and_measures_are_those_of_the_answer():
    """Nothing moves: the same events at the same times, the same figures."""
    answer = stream(["hi john.d", "oe@exa", "mple.com", " bye"])
    told = []
    for veil in (True, False):
        exchange = record(answer, veil=veil)
        completion = completion_of(exchange.model_copy(update={"path": "/v1/chat/completions"}))
        assert completion.outcome == "complete"
        told.append((exchange.marks, completion.timeline, completion.tokens))
        assert measure(completion, last_byte_ns_of(exchange)).e2e_ms == 7
    assert told[0] == told[1]


CODERS = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
}


@pytest.mark.parametrize("coding", CODERS)
def test_a_coded_answer_is_recorded_plain(coding):
    """Its marks are those of the reads that let the bytes out, as the collector would say."""
    answer = stream(["hi john.d", "oe@example.com"] + ["token"] * 50)
    coded = CODERS[coding](answer)
    exchange = record(coded, coding=coding)
    assert "john" not in text_of(exchange.body)
    assert text_of(exchange.body).endswith("token")
    assert (UNDONE, coding) in [(name.lower(), value) for name, value in exchange.headers]
    plain = record(coded, coding=coding, veil=False)
    path = {"path": "/v1/chat/completions"}
    ours, theirs = (completion_of(each.model_copy(update=path)) for each in (exchange, plain))
    assert ours.timeline == theirs.timeline
    assert (ours.outcome, theirs.outcome) == ("complete", "complete")
    assert b"john" not in everything(exchange)


@pytest.mark.parametrize("coding", CODERS)
def test_damaged_coding_stays_the_upstreams_failure(coding):
    answer = CODERS[coding](stream(["john.doe@example.com"] * 50))
    damaged = answer[:20] + b"john.doe@example.com" + answer[40:]
    exchange = record(damaged, coding=coding)
    assert b"john" not in everything(exchange)
    completion = completion_of(exchange.model_copy(update={"path": "/v1/chat/completions"}))
    assert completion.outcome == "truncated_upstream"
    assert failure_of(completion) == 1


@pytest.mark.parametrize(
    ("body", "coding", "said"),
    [
        (b"anything john", "exotic", {}),
        (gzip.compress(bytes(33 * 2**20)), "gzip", {}),
        (b'{"a":"' + b"a" * 60 + b'b"}', "", {"patterns": [{"name": "slow", "regex": "(a|aa)+$"}]}),
    ],
)
@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
def test_what_is_withheld_blames_nobody(body, coding, said, kind):
    """No bytes, all counted as missing: a capture that was cut, its times known, no failure."""
    exchange = record(body, kind=kind, coding=coding, **said)
    assert exchange.body == b""
    assert exchange.truncated_bytes == len(body)
    assert exchange.redactions["withheld"] == 1
    completion = completion_of(exchange.model_copy(update={"path": "/v1/chat/completions"}))
    assert completion.outcome == "truncated_capture"
    assert failure_of(completion) is None
    assert measure(completion, last_byte_ns_of(exchange)).e2e_ms is not None


def test_an_error_status_stands_though_its_text_is_withheld():
    exchange = record(b"john.doe@example.com", coding="exotic", status=500)
    completion = completion_of(exchange.model_copy(update={"path": "/v1/chat/completions"}))
    assert completion.outcome == "http_error"


def test_a_coded_request():
    head = HEAD + "\r\nContent-Encoding: gzip"
    exchange = record(stream(["x"]), request=gzip.compress(REQUEST), head=head)
    assert json.loads(exchange.request)["messages"][0]["content"] == "I am " + "*" * 20
    withheld = record(stream(["x"]), request=b"john", head=HEAD + "\r\nContent-Encoding: exotic")
    assert withheld.request == b""
    assert withheld.redactions["withheld"] == 1


def test_a_cut_capture():
    """Beyond answer_bytes: head and tail are looked through, a coded tail is left out."""
    answer = stream(["hi john.d", "oe@example.com "] + ["token"] * 200 + [f"me {EMAIL}"])
    exchange = record(answer, limits=(2_000, 1_000))
    assert exchange.truncated_bytes == len(answer) - 3_000
    assert exchange.tail_bytes == 1_000
    assert b"john" not in exchange.body
    assert b"example" not in exchange.body
    completion = completion_of(exchange.model_copy(update={"path": "/v1/chat/completions"}))
    plain = record(answer, limits=(2_000, 1_000), veil=False)
    theirs = completion_of(plain.model_copy(update={"path": "/v1/chat/completions"}))
    assert completion.outcome == theirs.outcome == "complete"
    assert completion.timeline == theirs.timeline
    coded = gzip.compress(answer, 0)
    exchange = record(coded, coding="gzip", limits=(2_000, 1_000))
    assert exchange.tail_bytes == 0
    assert exchange.truncated_bytes == len(coded) - 2_000
    assert b"john" not in exchange.body
    assert b"token" in exchange.body


def test_a_models_name_by_its_path_or_too_long():
    assert record(b"", paths=[{"path": "model", "action": "drop"}]).request_facts.model == ""
    body = json.dumps({"model": "m" * 240 + EMAIL}).encode()
    exchange = record(b"", request=body)
    assert exchange.request_facts.model == ""
    assert exchange.redactions["withheld"] == 1
