"""The proof without processes: every kind of answer as a record, and as the rows that it becomes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from privacy.loose_engine import (
    ANSWERED,
    ASKED,
    KINDS,
    NEEDLES,
    OWN_FIELD,
    OWN_QUERY,
    TICKET,
    all_of,
    email,
    fields_in,
    key,
    question,
    reply,
)
from privacy.sinks import leaks, record

from collector.decode import completion_of, rows_of
from collector.measured import Secret, measured
from shadow.body.change import changes
from shadow.body.scan import Scanner, run
from shadow.body.wish import Wish
from shadow.capture.capture import Capture
from shadow.capture.request import Request
from shadow.capture.side import Origin, Side
from shadow.config.redaction import Redaction
from shadow.config.subject import Subject
from shadow.config.upstream import HeaderChanges
from shadow.exchange import decode
from shadow.mirror.headers import ArmHeaders
from shadow.redaction import veil_of
from shadow.relay.answer import parse_answer
from shadow.relay.head import parse_request

HEAD = (
    f"POST /v1/{email('path')}/chat/completions?api_key={key('query')}&x={email('query')}&{OWN_QUERY} HTTP/1.1\r\n"
    f"{OWN_FIELD}\r\nHost: x\r\nAuthorization: Bearer {email('authorization')}\r\nCookie: a={email('cookie')}\r\n"
    f"User-Agent: ua {email('user_agent')}\r\nX-User-Id: {email('subject')}\r\n"
    f"X-Request-Id: {TICKET}\r\nX-Own: {all_of('own')}"
)
PLAIN_HEAD = HEAD.replace(f"/{email('path')}", "")
RECORDED = {"path", "user_agent"}
"""What of a head is recorded where nothing is redacted; of an answer's, `answer_header` too."""
REDACTION = {
    "patterns": [{"name": "ticket", "regex": "LEAKMARK-[0-9]+"}],
    "headers": ["x-own"],
    "salt": "a salt of the tests",
}


WISH = Wish({}, {"temperature": b"0", "our_own": b"1"}, ("top_p",))
"""What the arm's configuration says: names that a record repeats."""


def value(kind: str, redaction: Redaction | None, path: str = HEAD, arm: str = "primary") -> bytes:
    """The record of a question and its answer, in its wire form."""
    headers = None if arm == "primary" else ArmHeaders(arm, b"e", b"", HeaderChanges())
    side = Side(
        Origin("e", "h", "w", "b"), arm, "primary", 1.0, headers, 2**20, 2**16,
        subject=Subject(header="x-user-id", salt="0123456789abcdef"),
        veil=veil_of(redaction, lambda: True),
    )  # fmt: skip
    body = json.dumps(question(kind)).encode()
    capture = Capture(side, Request(parse_request(path.encode()), "p", 1, 1, body), 2, 0, 0)
    capture.sent_ns = capture.first_byte_ns = 1
    if headers is not None:
        headers.build(capture.request.head, 0)
        scanner = Scanner(body)
        found = run(scanner.whole())
        made = run(changes(scanner, found, WISH, b"/v1/chat/completions"))
        capture.changes = tuple(f"body:{name}" for name in made.names)
    status, fields, pieces = reply(kind)
    lines = "".join(f"\r\n{name}: {said}" for name, said in fields.items())
    head = f"HTTP/1.1 {status} X{lines}\r\nX-Request-Id: r {email('answer_header')}\r\nX-Own: {all_of('answer_own')}"
    capture.head = parse_answer(head.encode(), bodyless=False)
    for n, piece in enumerate(pieces):
        capture.append(n * 1_000_000, [piece])
    cut = kind == "cut"
    capture.end(
        10**9, "reset" if cut else "complete", f"it said {all_of('error')}" if cut else None
    )
    return capture.message(1).value


def sinks(told: bytes, capture: str) -> Iterator[tuple[str, bytes]]:
    yield from record(told)
    for table, rows in rows_of(told, capture).items():
        yield f"rows: {table}", str(rows).encode()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("capture", ["full", "text", "measures"])
@pytest.mark.parametrize("action", ["mask", "hash", "drop"])
def test_redaction_leaves_nothing(kind, capture, action):
    told = value(kind, Redaction(**REDACTION, action=action))
    if capture == "measures":
        told = measured(told, Secret())
    assert leaks(sinks(told, capture)) == {}


@pytest.mark.parametrize("kind", KINDS)
def test_without_it_the_same_search_finds_everything(kind):
    """What the proof rests on: the secrets are in the records, and the search can see them."""
    found = leaks(sinks(value(kind, None), "full"))
    assert {"stream: record", "stream: request", "rows: bodies"} <= set(found)
    assert found["stream: request"] >= set(NEEDLES)


@pytest.mark.parametrize("kind", KINDS)
def test_without_it_every_field_s_secret_is_there(kind):
    """Each field has a secret of its own; with nothing redacted all of them are found, token by token
    and across chunks' borders too, but those of fields that are never recorded: the proof above
    proves something of each."""
    content = b"\0".join(content for _, content in sinks(value(kind, None), "full"))
    error = {"error"} if kind == "cut" else set()
    assert fields_in(content) == {*ASKED, *ANSWERED[kind], *RECORDED, "answer_header", *error}


def test_what_cannot_be_looked_through_is_withheld():
    """Its text is told token by token, where no search of ours finds it: there must be nothing."""
    told = decode(value("exotic", Redaction(**REDACTION)))
    assert (told.body, told.captured_bytes) == (b"", 0)
    assert told.truncated_bytes == len(b"".join(reply("exotic")[2]))


@pytest.mark.parametrize("kind", KINDS)
def test_measures_leave_nothing_though_nothing_is_redacted(kind):
    """Of a request and its answer, whatever it was: figures, and words of known sets."""
    told = measured(value(kind, None, PLAIN_HEAD), Secret())
    assert leaks(sinks(told, "measures")) == {}
    exchange = decode(told)
    assert (exchange.body, exchange.request, exchange.headers) == (b"", None, [])
    assert rows_of(told, "text").keys() == {"exchanges"}


@pytest.mark.parametrize("capture", ["full", "measures"])
def test_what_was_altered_is_told_in_our_words(capture):
    """Names that a client made up, of parameters, fields and members, in no mode and redacted or not;
    what is altered of them is told as one, and the configuration's names as they are."""
    told = value("document", None, PLAIN_HEAD, "fp8")
    if capture == "measures":
        told = measured(told, Secret())
        assert leaks(sinks(told, capture)) == {}
    assert decode(told).request_changes == [
        "header:*", "header:authorization", "header:cookie", "header:x-request-id", "query:api-key", "query:*",
        "body:*", "body:extra_body.*", "body:metadata.*", "body:our_own", "body:temperature",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_redaction_changes_no_outcome_but_what_it_withholds(kind):
    """The same outcome, tokens and times with it and without."""
    plain, veiled = (
        completion_of(decode(value(kind, each, PLAIN_HEAD)))
        for each in (None, Redaction(**REDACTION))
    )
    if kind != "exotic":
        assert plain.outcome == veiled.outcome
        assert plain.timeline == veiled.timeline
        assert plain.tokens == veiled.tokens
