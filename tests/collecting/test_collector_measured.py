"""`capture: measures`: the figures are those that the text would have given, and the text is gone."""

from __future__ import annotations

import json

import pytest
from collecting.answers import DONE, event, finish, text, usage
from collecting.records import accounting, exchange

from collector.decode import rows_of
from collector.measured import OTHER, Secret, measured
from collector.rows import READ
from shadow.exchange import MalformedRecord, decode, encode

WORDS = ("Grüße", " from", " somewhere")
SAID = b"".join(map(event, [*map(text, WORDS), finish(), usage(3)])) + DONE
OTHERS = {"text_hash", "text_key"}


def answer(body: bytes = SAID, **more):
    headers = [("content-type", "text/event-stream"), ("x-request-id", "r")]
    facts = {"model": "llama/70b:fp8"}
    return exchange(
        body=body,
        headers=headers,
        request=b'{"prompt":"p"}',
        request_facts=facts,
        request_headers=[("user-agent", "ua")],
        **more,
    )


def row(record, capture: str = "measures"):
    (only,) = rows_of(encode(record), capture)["exchanges"]
    return only


@pytest.mark.parametrize(
    "record",
    [
        answer(),
        answer(SAID[:-20], transport="reset", error="reset by peer"),
        answer(b"", status=None, transport="connect_failed", error="no route"),
        answer(b'{"error":{"message":"no","type":"rate_limit_error"}}', status=429),
        answer(SAID, truncated_bytes=100, tail_bytes=50),
        answer(SAID, path="/somewhere"),
    ],
)
def test_the_row_is_the_one_that_the_text_gives(record):
    """Column by column, but for the hash and the error's words."""
    told = measured(encode(record), Secret())
    plain, figures = row(record), row(decode(told))
    differ = {name for name in plain if plain[name] != figures[name]}
    assert differ <= OTHERS | {"error"}
    assert list(plain) == list(figures)
    assert rows_of(told, "full").keys() == {"exchanges"}


def test_nothing_that_was_said_is_left():
    told = decode(measured(encode(answer(error="Grüße")), Secret()))
    assert (told.body, told.request, told.marks, told.error) == (b"", None, [], None)
    assert (told.headers, told.request_headers) == ([], [])
    assert set(told.measures) == set(READ)
    assert told.request_facts.model == "llama/70b:fp8"


def test_texts_compare_within_their_pair_and_nowhere_else():
    """The same text: one hash in one pair; another pair, another process or another text: another."""
    one, two = Secret(), Secret()

    def hashed(secret, pair_id="p", body=SAID):
        figures = decode(measured(encode(answer(body, pair_id=pair_id)), secret)).measures
        return figures["text_hash"], figures["text_key"]

    spelled = SAID.replace(b"\\u00fc", "ü".encode())
    assert spelled != SAID
    assert hashed(one) == hashed(one, body=spelled)
    other = SAID.replace(b"somewhere", b"elsewhere")
    assert len({hashed(one), hashed(two), hashed(one, "q"), hashed(one, body=other)}) == 4
    assert hashed(one)[1] != hashed(two)[1]
    assert hashed(one)[1] == hashed(one, "q")[1]
    assert one.key.hex() not in repr(one)
    plain = row(answer())["text_hash"]
    assert plain not in {hashed(one)[0], hashed(two)[0]}


def test_words_of_no_known_set_are_not_kept():
    """An engine may put a prompt anywhere: into its finish reason, its name, its error's type."""
    more = {"model": "a prompt", "system_fingerprint": "so: a prompt"}
    said = [text("a") | more, finish("the prompt was: hello") | more]
    body = b"".join(map(event, said)) + DONE
    figures = decode(measured(encode(answer(body)), Secret())).measures
    names = ("finish_reason", "model_echoed", "fingerprint")
    assert [figures[name] for name in names] == [OTHER] * 3
    errors = [
        ({"error": {"message": "m", "type": "rate_limit_error"}}, 429, "rate_limit_error"),
        ({"error": {"message": "m", "type": "hello there"}}, 400, "HTTP 400"),
        ({"error": {"message": "hello"}}, 200, OTHER),
    ]
    for document, status, wanted in errors:
        record = answer(json.dumps(document).encode(), status=status)
        record = record.model_copy(update={"headers": [("content-type", "application/json")]})
        assert decode(measured(encode(record), Secret())).measures["error"] == wanted


def test_accounting_passes_and_what_is_no_record_does_not():
    value = encode(accounting())
    assert measured(value, Secret()) == value
    with pytest.raises(MalformedRecord):
        measured(b'{"record":"exchange","body":"hello"}', Secret())


def test_figures_of_another_version_are_taken_as_far_as_they_go():
    """What a newer or older process measured: unknown figures are left out, missing ones null."""
    record = answer(b"", measures={"outcome": "complete", "e2e_ms": 5.0, "new_ms": 7})
    told = row(record)
    assert (told["outcome"], told["e2e_ms"], told["ttft_any_ms"]) == ("complete", 5.0, None)
    assert "new_ms" not in told
