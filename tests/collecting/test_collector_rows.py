"""Rows have the tables' columns, in their order, and values that their columns hold."""

import gzip
import json
import math
import tomllib
from pathlib import Path

import pytest
from collecting.answers import DONE, JSON, SSE, event, finish, text, usage
from collecting.records import accounting, exchange

from collector.decode import completion_of, is_unreadable, last_byte_ns_of, rows_of
from collector.measures import measure
from collector.rows import DECODER_VERSION, accounting_rows, body_row, exchange_row, worker_row
from collector.sql import split_statements, tokens
from shadow.exchange import RequestFacts, encode

MIGRATIONS = Path(__file__).parents[2] / "collector" / "migrations"


def columns_of(table):
    """The columns of a table after all migrations."""
    return created(table) + added(table)


def added(table):
    """What ALTER TABLE adds to it, in order."""
    alter = ["ALTER", "TABLE", table]
    texts = [
        [t.text for t in tokens(statement) if t.kind in ("word", "quoted")]
        for path in sorted(MIGRATIONS.glob("*.sql"))
        for statement in split_statements(path.read_text())
    ]
    return [
        words[at + 5].strip("`")
        for words in texts
        if words[:3] == alter
        for at in range(len(words) - 5)
        if words[at : at + 5] == ["ADD", "COLUMN", "IF", "NOT", "EXISTS"]
    ]


def created(table):
    """The columns of a CREATE TABLE among the migrations."""
    for path in sorted(MIGRATIONS.glob("*.sql")):
        for statement in split_statements(path.read_text()):
            found = [
                t for t in tokens(statement) if t.kind in ("word", "quoted") or t.text in "(,)"
            ]
            words = [t.text for t in found]
            if words[:6] == ["CREATE", "TABLE", "IF", "NOT", "EXISTS", table]:
                inside = [t for t in found[7 : words.index("ENGINE")] if t.depth == 1]
                return [
                    t.text.strip("`")
                    for before, t in zip([None, *inside], inside, strict=False)
                    if before is None or before.text == ","
                ]
    raise AssertionError(table)


BODY = (
    b"".join(event(each) for each in (text("Hi "), text("there"), finish("length"), usage(2)))
    + DONE
)
RECORD = exchange(
    body=BODY,
    request=b'{"messages":[]}',
    headers=[("content-type", "text/event-stream"), ("x", "\xe9")],
)


def rows(record=RECORD, capture="full"):
    return rows_of(encode(record), capture)


def test_the_columns_are_the_tables():
    """Names and order as in the migrations."""
    completion = completion_of(RECORD)
    measures = measure(completion, None)
    assert list(exchange_row(RECORD, completion, measures)) == columns_of("exchanges")
    assert list(body_row(RECORD, completion, keep_raw=True)) == columns_of("bodies")
    assert list(accounting_rows(accounting())[0]) == columns_of("accounting")
    assert list(worker_row(accounting())) == columns_of("workers")


def test_every_metric_has_its_column():
    """What metrics.toml lists is stored with each answer, but for what takes two answers, or
    follows from other columns: the outcome, the finish reason."""
    listed = tomllib.loads((MIGRATIONS.parents[1] / "analysis" / "metrics.toml").read_text())
    names = {
        f"{name}_ms" if m["unit"] == "ms" else name
        for name, m in listed.items()
        if not m.get("probe")
    }
    assert names - {"mismatch", "in_band_error", "cut_at_length"} <= set(columns_of("exchanges"))
    two_sided = {name for name in names if listed[name.removesuffix("_ms")]["kind"] == "time"}
    assert two_sided | {f"reference_{name}" for name in two_sided} <= set(columns_of("pairs"))


def test_an_exchange_s_row():
    """What stands in the record, what was read, what was measured."""
    row = rows()["exchanges"][0]
    assert (row["pair_id"], row["arm"], row["arrived_at"], row["version"]) == (
        "p",
        "primary",
        100,
        DECODER_VERSION,
    )
    assert (row["dialect"], row["outcome"], row["finish_reason"], row["failure"]) == (
        "openai_chat",
        "complete",
        "length",
        0,
    )
    assert (row["output_tokens"], row["token_source"], row["events"]) == (2, "usage", 5)
    assert (row["text_chars"], row["error"], row["e2e_ms"]) == (8, "", 5.0)


def test_failed_answers_say_why():
    """The fault's type and message; the transport's own line where there was no answer."""
    refused = rows(exchange(status=None, transport="connect_failed", error="connection refused"))[
        "exchanges"
    ][0]
    assert (refused["outcome"], refused["error"], refused["failure"]) == (
        "no_tokens",
        "connect_failed: connection refused",
        1,
    )
    assert refused["text_hash"] is None
    failed = rows(exchange(body=b'data: {"error":{"type":"T","message":"m"}}\n\n'))["exchanges"][0]
    assert failed["error"] == "T: m"


@pytest.mark.parametrize(("capture", "raw"), [("full", BODY), ("text", b"")])
def test_what_is_kept_of_a_body(capture, raw):
    """Full keeps the bytes, text the words, measures neither."""
    row = rows(capture=capture)["bodies"][0]
    assert (row["raw"], row["request"]) == (raw, b'{"messages":[]}')
    assert json.loads(row["answer"]) == [
        {"index": 0, "text": "Hi there", "finish_reason": "length"}
    ]
    assert json.loads(row["headers"]) == [["content-type", "text/event-stream"], ["x", "é"]]
    assert row["marks"] == [(5_000_000, len(BODY))]


NOT_READ = {
    "an event that is no JSON": (1, 0, {"body": b"data: {nonsense\n\n" + BODY}),
    "an event that is no UTF-8": (
        0,
        1,
        {"body": b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n' + BODY},
    ),
    "bytes that are no event": (1, 0, {"body": b"<html>\n\nbusy\n"}),
    "a last event without its end": (1, 0, {"body": BODY + b'data: {"choices":[]}'}),
    "a document that is no JSON": (1, 0, {"body": b"<html>", "headers": [*JSON]}),
    "a document that is no UTF-8": (
        0,
        1,
        {"body": b'{"choices":[{"message":{"content":"\xff"}}]}', "headers": [*JSON]},
    ),
    "a document that is a list": (1, 0, {"body": b"[1]", "headers": [*JSON]}),
    "a document of another shape": (1, 0, {"body": b'{"a":1}', "headers": [*JSON]}),
    "a document cut short": (
        1,
        0,
        {"body": b'{"choices":[{"mess', "headers": [*JSON], "transport": "reset"},
    ),
    "a document with a gap": (
        1,
        0,
        {"body": b'{"choices"}]}', "headers": [*JSON], "truncated_bytes": 9, "tail_bytes": 3},
    ),
    "a document too large to read": (
        1,
        0,
        {"body": b'{"choices":[' + b"1," * 2_100_000 + b"1]}", "headers": [*JSON]},
    ),
    "another content type": (1, 0, {"body": b"<p>Hi</p>", "headers": [("content-type", "text/html")]}),
    "an unknown coding": (1, 0, {"body": BODY, "headers": [*SSE, ("content-encoding", "lzma")]}),
    "a damaged coding": (1, 0, {"body": b"\x07" + BODY, "headers": [*SSE, ("content-encoding", "gzip")]}),
    "damage after good bytes": (
        1,
        0,
        {
            "body": gzip.compress(BODY * 50)[:60] + b"\xff" * 60,
            "headers": [*SSE, ("content-encoding", "gzip")],
        },
    ),
    "a bomb": (
        1,
        0,
        {"body": gzip.compress(b"\0" * 2**24), "headers": [*SSE, ("content-encoding", "gzip")]},
    ),
    "an error whose coding is unknown": (
        1,
        0,
        {"body": b"x", "status": 503, "headers": [*JSON, ("content-encoding", "lzma")]},
    ),
    "an error that is no text": (1, 0, {"body": b"\xff\xfe", "status": 500, "headers": [*JSON]}),
}  # fmt: skip


@pytest.mark.parametrize("capture", ["text", "full"])
@pytest.mark.parametrize("kind", NOT_READ)
def test_what_could_not_be_read_is_kept_and_counted(kind, capture):
    """The raw bytes stay, also where only text is kept; the row says how many pieces they are."""
    unreadable, damaged, changes = NOT_READ[kind]
    made = rows(RECORD.model_copy(update=changes), capture)
    row = made["exchanges"][0]
    assert (row["unreadable_events"], row["damaged_events"]) == (unreadable, damaged)
    assert made["bodies"][0]["raw"] == changes["body"]
    assert is_unreadable(made)
    whole = "UTF-8" in kind or kind in ("an event that is no JSON", "a last event without its end")
    assert whole or (row["outcome"] != "complete" and row["error"])


READ = {
    "a stream": {"body": BODY},
    "a stream cut in an event": {"body": BODY[:-20], "transport": "reset"},
    "no answer": {"body": b"", "status": None, "transport": "connect_failed"},
    "an empty body": {"body": b"", "headers": [*JSON]},
    "an error": {"body": b'{"error":"no"}', "status": 400, "headers": [*JSON]},
    "a proxy's error": {"body": b"<html>bad gateway", "status": 502},
    "another path": {"body": b"\xff", "path": "/v1/images"},
}  # fmt: skip


@pytest.mark.parametrize("kind", READ)
def test_what_was_read_or_is_nobody_s_is_not_kept_raw(kind):
    """Where only text is kept; what stands on another path is not looked at."""
    made = rows(RECORD.model_copy(update=READ[kind]), "text")
    assert not is_unreadable(made)
    assert made["bodies"][0]["raw"] == b""


@pytest.mark.parametrize(("status", "failure"), [(503, 1), (200, None)])
def test_an_error_status_stands_whatever_the_body_s_coding(status, failure):
    """We cannot read it, but it said what it was; of a 200 nobody can say."""
    headers = [("content-type", "application/json"), ("content-encoding", "lzma")]
    row = rows(RECORD.model_copy(update={"status": status, "headers": headers}))["exchanges"][0]
    assert row["failure"] == failure
    assert row["outcome"] == ("truncated_capture" if failure is None else "http_error")


def test_measures_keep_no_body():
    """No row of bodies at all."""
    assert set(rows(capture="measures")) == {"exchanges"}


def test_numbers_that_clients_chose_fit_their_columns():
    """-1, 10**30 and infinity are no counts; they must not cost the record its place."""
    facts = RequestFacts(max_tokens=-1, turns=10**30, tools=3, temperature=math.inf)
    row = rows(RECORD.model_copy(update={"request_facts": facts}))["exchanges"][0]
    assert (row["max_tokens"], row["turns"], row["tools"], row["temperature"]) == (
        None,
        None,
        3,
        None,
    )


def test_words_that_engines_chose_are_bounded():
    """A finish reason or a model name of a megabyte does not become a dictionary's entry."""
    body = event({**text("a"), "model": "m" * 10**6}) + DONE
    assert len(rows(exchange(body=body))["exchanges"][0]["model_echoed"]) == 200


def test_accounting():
    """One row a counter; the worker's row says how far it has come."""
    got = rows_of(encode(accounting()), "full")
    assert [(r["counter"], r["reason"], r["value"]) for r in got["accounting"]] == [
        ("eligible", "", 5),
        ("dropped", "queue_full", 2),
    ]
    assert (
        got["workers"][0]["low_water"],
        got["workers"][0]["final"],
        got["workers"][0]["high_sequence"],
    ) == (None, 1, 9)


def test_the_last_byte():
    """By its mark; of an answer without a body, by the end of its head; else unknown."""
    assert last_byte_ns_of(exchange(marks=[(5, 1), (9, 2)])) == 9
    assert last_byte_ns_of(exchange(marks=[], sent_ns=10, end_ns=30)) == 20
    assert last_byte_ns_of(exchange(marks=[])) is None


def test_the_same_bytes_give_the_same_rows():
    """What makes redelivery exact."""
    assert rows() == rows()
