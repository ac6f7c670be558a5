"""The proof: secrets through every field that exists, then every sink is searched for them."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from end_to_end.stage import Stage, free_port, stage, until
from kafka import KafkaConsumer
from privacy.asking import fetch, send_all, spoken
from privacy.loose_engine import (
    ANSWERED,
    ASKED,
    KINDS,
    fields_in,
    loose_engine,
)
from privacy.sinks import ask, files, leaks, record, records, tables

from shadow.stream import Message, Producer
from shadow.stream.embedded import EmbeddedConsumer, EmbeddedProducer
from shadow.stream.kafka import KafkaProducerStream, KafkaSettings
from shadow.stream.spill import unread

REDACTION = {
    "patterns": [{"name": "ticket", "regex": "LEAKMARK-[0-9]+"}],
    "headers": ["x-own"],
    "action": "mask",
}


IN_HEADS = {"query", "query_name", "authorization", "cookie", "user_agent", "subject", "own"}


def bad_records(producer: Producer, value: bytes) -> None:
    """Two that cannot be read, so that there are dead letters: half of one of ours, and one whose
    headers are a text."""
    wrong = json.loads(value)
    wrong["headers"] = json.dumps(wrong["headers"])
    producer.append([Message(b"k", value[: len(value) // 2])])
    producer.append([Message(b"k", json.dumps(wrong).encode())])
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


def searched(running: Stage, admin: dict[str, int], tmp_path) -> dict[str, set[bytes]]:
    """All sinks of a run in which every kind of answer was given, searched."""
    send_all(running.port)
    rows = partial(count, running.store)
    until(lambda: rows("exchanges") >= 2 * len(KINDS), 60, "every exchange stored")
    damaged = EmbeddedProducer(tmp_path / "stream", "damaged")
    bad_records(damaged, first_value(tmp_path / "stream"))
    until(lambda: rows("dead_letters") >= 2, 20, "two dead letters")
    until(lambda: rows("pairs") >= len(KINDS) - 1, 30, "pairs")
    return leaks(tables(running.store)) | leaks(spoken(running, admin))


@contextlib.contextmanager
def loose(tmp_path, capture: str, **changes) -> Iterator[tuple[Stage, dict[str, int]]]:
    """`shadow up` between us and an engine that gives everything away, as primary and as arm."""
    admin = {part: free_port() for part in ("collector", "analysis", "control")}
    with loose_engine() as (url, seen):
        arms = {"fp8": {"role": "candidate", "url": url, "sample": 1.0}}
        subject = {"header": "x-user-id", "salt": "${SALT}"}
        addresses = {part: f"127.0.0.1:{port}" for part, port in admin.items()}
        more = {"capture": capture, "subject": subject, "admin": addresses} | changes
        with stage(tmp_path, url, arms, **more) as running:
            yield running, admin
        assert seen >= IN_HEADS  # all of it went on


def run(tmp_path, capture: str, **changes) -> dict[str, set[bytes]]:
    with loose(tmp_path, capture, **changes) as (running, admin):
        found = searched(running, admin, tmp_path)
    found |= leaks(records(tmp_path / "stream"))
    found |= leaks(files("stream", tmp_path / "stream"))
    return found | left(tmp_path, running)


def left(tmp_path, running: Stage) -> dict[str, set[bytes]]:
    """Folders and logs, when all has ended."""
    found = leaks(files("store", tmp_path / "store"))
    found |= leaks(files("state", tmp_path / "state"))
    return found | leaks([("log", running.log.read_bytes())])


def run_away(tmp_path, capture: str, **changes) -> tuple[dict[str, set[bytes]], set[str]]:
    """Kafka is away all the time, so that everything waits in the spool: what is found, and of which
    fields."""
    spill = tmp_path / "spill"
    kafka = {
        "bootstrap_servers": f"127.0.0.1:{free_port()}",
        "spill": str(spill),
        "connect_timeout": "1s",
        "append_timeout": "1s",
    }
    with loose(
        tmp_path, capture, ready="/healthz", drain="1s", stream={"kafka": kafka}, **changes
    ) as (running, _):
        send_all(running.port)
        until(lambda: spooled(spill) >= 2 * len(KINDS), 60, "every exchange in the spool")
        found = leaks([("metrics", fetch(running.health, "/metrics"))])
        found |= leaks([("health", fetch(running.health, "/readyz"))])
    sinks = [sink for each in partitions(spill) for sink in records(each.parent)]
    assert sum(name == "stream: record" for name, _ in sinks) >= 2 * len(KINDS)
    fields = fields_in(b"\0".join(content for _, content in sinks))
    found |= leaks(iter(sinks)) | leaks(files("spill", spill))
    return found | left(tmp_path, running), fields


def partitions(spill: Path) -> list[Path]:
    return sorted(spill.rglob("*.sqlite3"))


def spooled(spill: Path) -> int:
    return sum(unread(each.parent, each.stem) for each in partitions(spill))


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


AWAY = [("full", REDACTION), ("text", REDACTION), ("measures", REDACTION), ("measures", None)]


@pytest.mark.parametrize(("capture", "redaction"), AWAY)
@pytest.mark.whole
def test_no_spool_holds_a_secret(tmp_path, capture, redaction):
    """What waits on the disk while Kafka is away is as clean as what goes out, in every mode."""
    assert run_away(tmp_path, capture, redaction=redaction) == ({}, set())


@pytest.mark.whole
def test_the_search_of_the_spool_finds_what_leaks(tmp_path):
    """With redaction off all of it waits there, of each field that is recorded."""
    found, fields = run_away(tmp_path, "full")
    assert {"stream: record", "stream: body", "stream: request", "stream: answer"} <= set(found)
    assert fields == {*ASKED, *set().union(*ANSWERED.values()), "user_agent", "answer_header"}


def topic(bootstrap: tuple[str, ...], name: str, least: int) -> list:
    """All records of a topic, once there are so many."""
    consumer = KafkaConsumer(
        name, bootstrap_servers=list(bootstrap), auto_offset_reset="earliest", group_id=None
    )
    try:
        found: list = []
        while len(found) < least and (polled := consumer.poll(timeout_ms=20_000)):
            found += [record for records in polled.values() for record in records]
        return found
    finally:
        consumer.close()


def run_kafka(bootstrap: tuple[str, ...], tmp_path, **changes) -> dict[str, set[bytes]]:
    """Both topics, with their records' fields, after all kinds of answers and two bad records."""
    name = f"shadow.privacy-{uuid.uuid4().hex}"
    said = {
        "topic": name,
        "dead_letter_topic": f"{name}.dead",
        "group": name,
        "create_topic": True,
        "partitions": 1,
        "spill": str(tmp_path / "spill"),
    }
    kafka = said | {"bootstrap_servers": list(bootstrap)}
    with loose(tmp_path, "full", stream={"kafka": kafka}, **changes) as (running, _):
        send_all(running.port)
        found = topic(bootstrap, name, 2 * len(KINDS))
        value = max((record.value for record in found), key=len)
        bad_records(KafkaProducerStream(KafkaSettings(bootstrap, topic=name)), value)
        letters = topic(bootstrap, f"{name}.dead", 2)
        assert len(letters) == 2
    held = {"topic": found, "dead letters": letters}
    sinks = [
        (f"kafka: {where}", part)
        for where, records in held.items()
        for each in records
        for part in (each.key or b"", each.value, *(value for _, value in each.headers))
    ]
    sinks += [sink for each in found for sink in record(each.value)]
    return leaks(iter(sinks)) | left(tmp_path, running)


@pytest.mark.kafka
def test_no_topic_holds_a_secret(bootstrap, tmp_path):
    """Neither what goes out by a real Kafka nor the dead letters there, nor why they are."""
    assert run_kafka(bootstrap, tmp_path, redaction=REDACTION) == {}


@pytest.mark.kafka
def test_the_search_of_the_topics_finds_what_leaks(bootstrap, tmp_path):
    """Without redaction it is in both."""
    found = run_kafka(bootstrap, tmp_path)
    assert {"kafka: topic", "kafka: dead letters", "stream: request"} <= set(found)
