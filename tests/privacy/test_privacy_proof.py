"""The proof: secrets through every field that exists, then every sink is searched for them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import urllib.request
from functools import partial

import pytest
from end_to_end.stage import Stage, stage, until
from privacy.loose_engine import ALL, EMAIL, KEY, KINDS, TICKET, loose_engine, question
from privacy.sinks import ask, files, leaks, records, tables

from shadow.stream import Message
from shadow.stream.embedded import EmbeddedConsumer, EmbeddedProducer

REDACTION = {
    "patterns": [{"name": "ticket", "regex": "LEAKMARK-[0-9]+"}],
    "headers": ["x-own"],
    "action": "mask",
}


async def send(port: int, kind: str) -> bytes:
    """One question, with secrets in its query and fields; the answer's raw bytes."""
    body = json.dumps(question(kind)).encode()
    head = (
        f"POST /v1/chat/completions?api_key={KEY}&x={TICKET} HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {KEY}\r\nCookie: a={KEY}\r\nUser-Agent: ua {EMAIL}\r\n"
        f"X-User-Id: {EMAIL}\r\nX-Request-Id: {TICKET}\r\nX-Own: {ALL}\r\nConnection: close\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head.encode() + body)
    raw = b""
    with contextlib.suppress(ConnectionError):
        while piece := await asyncio.wait_for(reader.read(2**16), 30):
            raw += piece
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return raw


def fetch(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return answer.read()


def bad_record(stream, value: bytes) -> None:
    """A record that cannot be read, so that there is a dead letter: half of one of ours."""
    producer = EmbeddedProducer(stream, "damaged")
    producer.append([Message(b"k", value[: len(value) // 2])])
    producer.close()


def count(port: int, table: str) -> int:
    """How many rows a table has; none while the store is still to come up."""
    with contextlib.suppress(OSError):
        return int(ask(port, f"SELECT count() FROM shadow.{table}"))
    return 0


def first_value(stream) -> bytes:
    consumer = EmbeddedConsumer(stream, "first")
    try:
        return max((each.value for each in consumer.poll(100, 5.0)), key=len)
    finally:
        consumer.close()


def searched(running: Stage, tmp_path) -> dict[str, set[bytes]]:
    """All sinks of a run in which every kind of answer was given, searched."""
    for kind in KINDS:
        raw = asyncio.run(send(running.port, kind))
        assert raw.startswith(b"HTTP/1.1 "), kind
        assert kind == "gzip" or b"leakmark" in raw  # the client gets all that the engine said
    rows = partial(count, running.store)
    until(lambda: rows("exchanges") >= 2 * len(KINDS), 60, "every exchange stored")
    bad_record(tmp_path / "stream", first_value(tmp_path / "stream"))
    until(lambda: rows("dead_letters") >= 1, 20, "a dead letter")
    found = leaks(tables(running.store))
    found |= leaks([("metrics", fetch(running.health, "/metrics"))])
    for form in ("json", "md"):
        found |= leaks([("report", running.shadow("report", "--format", form).stdout.encode())])
    found |= leaks([("gate", running.shadow("gate").stdout.encode())])
    return found


def run(tmp_path, capture: str, **changes) -> dict[str, set[bytes]]:
    with loose_engine() as url:
        arms = {"fp8": {"role": "candidate", "url": url, "sample": 1.0}}
        subject = {"header": "x-user-id", "salt": "${SALT}"}
        more = {"capture": capture, "subject": subject} | changes
        with stage(tmp_path, url, arms, **more) as running:
            found = searched(running, tmp_path)
    found |= leaks(records(tmp_path / "stream"))
    found |= leaks(files("stream", tmp_path / "stream"))
    found |= leaks(files("store", tmp_path / "store"))
    found |= leaks(files("state", tmp_path / "state"))
    return found | leaks([("log", running.log.read_bytes())])


@pytest.fixture(autouse=True)
def _salt(monkeypatch):
    monkeypatch.setenv("SALT", "a salt of the tests' own")


@pytest.mark.parametrize("capture", ["full", "text", "measures"])
@pytest.mark.whole
def test_no_sink_holds_a_secret(tmp_path, capture):
    """Whatever is captured, what was found is nowhere."""
    assert run(tmp_path, capture, redaction=REDACTION) == {}


@pytest.mark.whole
def test_measures_hold_no_text_though_nothing_is_redacted(tmp_path):
    """`capture: measures` alone: no prompt, no answer, no error's words, no header in any sink."""
    assert run(tmp_path, "measures") == {}


@pytest.mark.whole
def test_the_search_finds_what_leaks(tmp_path):
    """The same run with redaction off fails: the proof above can."""
    found = run(tmp_path, "full")
    assert {"stream: record", "stream: body", "stream: request", "stream: answer"} <= set(found)
    assert {"table: exchanges", "table: bodies", "table: dead_letters"} <= set(found)
