"""Topics: made as stated where that is allowed, left alone where they exist, a clear error else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource

from shadow.stream import Message, StreamUnavailable
from shadow.stream.kafka import KafkaConsumerStream, KafkaProducerStream
from shadow.stream.kafka.topics import USUAL_LIMIT_BYTES, ensure_topic

pytestmark = pytest.mark.kafka


@pytest.fixture
def admin(bootstrap, opened):
    return opened(KafkaAdminClient(bootstrap_servers=list(bootstrap)))


def facts(admin, topic: str) -> tuple[int, int, str]:
    """Partitions, replicas, retention.ms."""
    partitions = admin.describe_topics([topic])[0]["partitions"]
    asked = ConfigResource("TOPIC", topic, configs=["retention.ms"])
    told = admin.describe_configs([asked], config_filter="all")["topic"][topic]
    return len(partitions), len(partitions[0]["replica_nodes"]), told["retention.ms"]["value"]


def test_a_missing_topic_is_made_as_stated(admin, settings):
    """Partitions, replicas and retention are the configuration's; the limit is the topic's."""
    stated = replace(settings, partitions=5, replication_factor=1, retention=7200.0)
    assert ensure_topic(stated, stated.topic) == USUAL_LIMIT_BYTES
    assert facts(admin, stated.topic) == (5, 1, "7200000")


def test_an_existing_topic_is_left_alone_and_its_limit_is_known(admin, settings):
    """Operators' own settings stand, whatever the configuration says."""
    configs = {"retention.ms": "60000", "max.message.bytes": "50000"}
    admin.create_topics(
        {settings.topic: {"num_partitions": 2, "replication_factor": 1, "configs": configs}},
        wait_for_metadata=True,
    )
    assert ensure_topic(settings, settings.topic) == 50_000
    assert facts(admin, settings.topic) == (2, 1, "60000")


@pytest.mark.parametrize("end", [KafkaProducerStream, KafkaConsumerStream])
def test_a_missing_topic_that_may_not_be_made_is_one_clear_line(settings, opened, end):
    """The line names the topic, a command and the key; nothing is created by asking."""
    one = opened(end(replace(settings, create_topic=False)))
    for _ in range(2):
        with pytest.raises(StreamUnavailable) as missing:
            one.append([Message(b"", b"")]) if end is KafkaProducerStream else one.poll(1, 0.1)
        line = str(missing.value)
        assert "\n" not in line
        assert f"there is no topic {settings.topic}: create it" in line
        assert "create_topic: true" in line


def test_an_impossible_wish_is_one_clear_line(settings):
    """More replicas than brokers: the brokers' word for it, with the topic."""
    with pytest.raises(StreamUnavailable, match="cannot be created") as refused:
        ensure_topic(replace(settings, replication_factor=9), settings.topic)
    assert settings.topic in str(refused.value)


def test_several_processes_may_make_it_at_once(settings):
    """Workers and collectors start together."""
    with ThreadPoolExecutor(4) as together:
        limits = list(together.map(lambda _: ensure_topic(settings, settings.topic), range(4)))
    assert limits == [USUAL_LIMIT_BYTES] * 4
