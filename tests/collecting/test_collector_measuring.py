"""`shadow measure`: where what it measured goes, and that no text is on any disk on the way."""

from __future__ import annotations

import threading

import pytest
from collecting.test_collector_measured import SAID, answer

from collector.measured import Secret, measured
from collector.measuring import ToLog, producer
from shadow.cli.settings import measure_settings
from shadow.config import Config, ConfigError
from shadow.exchange import decode, encode
from shadow.stream import Message, StreamUnavailable
from shadow.stream.embedded import EmbeddedConsumer
from shadow.stream.handover import Handover, HandoverProducer
from shadow.stream.spill import Spill


class Away:
    """A Kafka that nobody reaches."""

    def append(self, batch):
        raise StreamUnavailable("away")

    def close(self):
        pass


def handed_over(folder, connect, messages) -> int:
    """How many wait on disk once these were handed over."""
    over, secret = threading.Event(), Secret()
    server = Handover(folder, connect, lambda value: measured(value, secret))
    thread = threading.Thread(target=server.serve, args=(over.is_set,))
    thread.start()
    try:
        proxy = HandoverProducer(folder, "0")
        proxy.append(messages)
        waiting = proxy.spooled()
        proxy.close()
    finally:
        over.set()
        thread.join(10)
    return waiting


def values_in(folder):
    consumer = EmbeddedConsumer(folder, "a test")
    try:
        return [each.value for each in consumer.poll(100, 1.0)]
    finally:
        consumer.close()


def test_what_waits_on_disk_was_measured_before(tmp_path):
    """Kafka is away: the spool holds figures, byte for byte no text."""
    spool = tmp_path / "spill"
    message = Message(b"p", encode(answer()))
    waiting = handed_over(
        tmp_path / "place", lambda worker: Spill(Away(), spool / worker, worker), [message] * 3
    )
    assert waiting == 3
    told = [decode(value) for value in values_in(spool / "0")]
    assert [each.measures["outcome"] for each in told] == ["complete"] * 3
    assert {each.body for each in told} == {b""}
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert SAID[:40] not in written
    assert b"somewhere" not in written


def test_into_the_embedded_log(tmp_path):
    """As the proxy would write it: a partition a worker."""
    log = ToLog(tmp_path / "stream", 2**24, 3600.0)
    connect = lambda worker: producer(log, worker)  # noqa: E731
    assert handed_over(tmp_path / "place", connect, [Message(b"p", encode(answer()))]) == 0
    (value,) = values_in(tmp_path / "stream")
    assert decode(value).measures["outcome"] == "complete"


def config(capture: str) -> Config:
    stream, store = {"embedded": "s"}, {"embedded": "d"}
    primary = {"url": "http://127.0.0.1:1"}
    return Config(
        experiment="e", capture=capture, primary=primary, stream=stream, store=store, state="st"
    )


def test_settings():
    settings = measure_settings(config("measures"))
    assert str(settings.folder) == "st/measure"
    assert isinstance(settings.stream, ToLog)
    with pytest.raises(ConfigError, match="capture: text: nothing to measure"):
        measure_settings(config("text"))
