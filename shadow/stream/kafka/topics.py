"""A topic is there, or is made, or it is said how: asked once a connection."""

from __future__ import annotations

from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource
from kafka.errors import (
    KafkaError,
    NoError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)

from shadow.stream import StreamUnavailable
from shadow.stream.kafka.connect import explained, opened
from shadow.stream.kafka.settings import KafkaSettings

USUAL_LIMIT_BYTES = 1_048_588
"""Kafka's own default of max.message.bytes, for where asking is not allowed."""
_LIMIT = "max.message.bytes"


def ensure_topic(settings: KafkaSettings, topic: str) -> int:
    """Find or create the topic; how many bytes one compressed batch of it may have.

    Raises:
        StreamUnavailable: no connection, no such topic, or no right to it; one line.
    """
    admin, _ = opened(settings, KafkaAdminClient)
    try:
        error = _error(admin, topic)
        if error is UnknownTopicOrPartitionError:
            _create(admin, settings, topic)
        elif error is not NoError:
            raise StreamUnavailable(f"{settings.address}: topic {topic}: {explained(error())}")
        return _limit_bytes(admin, topic)
    except KafkaError as failed:
        raise StreamUnavailable(
            f"{settings.address}: topic {topic}: {explained(failed)}"
        ) from failed
    finally:
        admin.close()


def _error(admin: KafkaAdminClient, topic: str) -> Any:
    return for_code(admin.describe_topics([topic])[0]["error_code"])


def _create(admin: KafkaAdminClient, settings: KafkaSettings, topic: str) -> None:
    if not settings.create_topic:
        raise StreamUnavailable(
            f"{settings.address}: there is no topic {topic}: create it (kafka-topics.sh --create "
            f"--topic {topic} --partitions {settings.partitions}), or say create_topic: true"
        )
    wanted = {
        "num_partitions": settings.partitions,
        "replication_factor": settings.replication_factor,
        "configs": {"retention.ms": str(int(settings.retention * 1000))},
    }
    try:
        admin.create_topics({topic: wanted})
    except TopicAlreadyExistsError:
        pass  # another process was quicker
    except KafkaError as error:
        raise StreamUnavailable(
            f"{settings.address}: topic {topic} cannot be created: {explained(error)}"
        ) from error
    admin.wait_for_topics([topic], timeout_ms=int(settings.connect_timeout * 1000))


def _limit_bytes(admin: KafkaAdminClient, topic: str) -> int:
    asked = ConfigResource("TOPIC", topic, configs=[_LIMIT])
    try:
        told = admin.describe_configs([asked], config_filter="all")
        return int(told["topic"][topic][_LIMIT]["value"])
    except (KafkaError, LookupError):  # the right to ask is not needed for sending
        return USUAL_LIMIT_BYTES
