"""stream.kafka: what may stand there, and that every mistake is one line with its path."""

from __future__ import annotations

from pathlib import Path

import pytest

from shadow.config.document import ConfigError, load
from shadow.config.kafka import KafkaStream


def read(tmp_path: Path, text: str, **environment: str) -> KafkaStream:
    path = tmp_path / "stream.yaml"
    path.write_text(text)
    return load(path, KafkaStream, environment)


def test_the_servers_alone_are_enough(tmp_path):
    """Everything else has a default; several servers are a list or one text."""
    one = read(tmp_path, "kafka: {bootstrap_servers: 'a:9092, b:9093'}")
    other = read(tmp_path, "kafka: {bootstrap_servers: [a:9092, b:9093]}")
    assert one == other
    settings = one.settings()
    assert settings.bootstrap_servers == ("a:9092", "b:9093")
    assert settings.topic == "shadow.exchanges"
    assert (settings.create_topic, settings.sasl, settings.tls) == (False, None, None)
    assert settings.replication_factor == -1


def test_every_key_arrives(tmp_path):
    """What is written is what the stream is told; the password comes from the environment."""
    text = """
kafka:
  bootstrap_servers: kafka:9093
  topic: t
  dead_letter_topic: d
  group: g
  client_id: c
  create_topic: true
  partitions: 5
  replication_factor: 3
  retention: 2h
  compression: lz4
  tls: {ca: ca.pem, certificate: me.pem, key: me.key}
  sasl_mechanism: SCRAM-SHA-256
  sasl_user: u
  sasl_password: "${PASSWORD}"
  connect_timeout: 3s
  append_timeout: 20s
"""
    settings = read(tmp_path, text, PASSWORD="p").settings()
    assert settings.sasl is not None
    assert (settings.sasl.mechanism, settings.sasl.user, settings.sasl.password) == (
        "SCRAM-SHA-256",
        "u",
        "p",
    )
    assert settings.tls is not None
    assert settings.tls.key == Path("me.key")
    assert (settings.topic, settings.dead_letter_topic, settings.group) == ("t", "d", "g")
    assert (settings.partitions, settings.replication_factor) == (5, 3)
    assert (settings.retention, settings.compression, settings.client_id) == (7200.0, "lz4", "c")
    assert (settings.connect_timeout, settings.append_timeout) == (3.0, 20.0)
    assert settings.create_topic
    assert "password" not in repr(settings.sasl)


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ("{}", "kafka.bootstrap_servers: missing"),
        ("{bootstrap_servers: []}", "kafka.bootstrap_servers: "),
        ("{bootstrap_servers: kafka}", "kafka.bootstrap_servers: 'kafka' is not an address"),
        ("{bootstrap_servers: 'k:0'}", "kafka.bootstrap_servers: 'k:0' is not an address"),
        ("{bootstrap_servers: 'k:1', topic: 'a b'}", "kafka.topic: 'a b' is not a topic's name"),
        ("{bootstrap_servers: 'k:1', compression: snappy}", "kafka.compression: "),
        ("{bootstrap_servers: 'k:1', retention: 7}", "kafka.retention: "),
        ("{bootstrap_servers: 'k:1', partition: 7}", "kafka.partition: unknown key"),
        (
            "{bootstrap_servers: 'k:1', sasl_user: u}",
            "missing: sasl_mechanism, sasl_password",
        ),
        ("{bootstrap_servers: 'k:1', sasl_password: s3cret}", "a secret stands written out"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, keys, line):
    """Path first, then what is wrong."""
    with pytest.raises(ConfigError) as wrong:
        read(tmp_path, f"kafka: {keys}")
    assert line in str(wrong.value)
    assert "\n" not in str(wrong.value)
    assert "s3cret" not in str(wrong.value)
