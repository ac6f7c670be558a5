"""What may stand under `stream.kafka`: where Kafka is, how to log in, what our topics are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from shadow.config.units import Duration, SomeBytes, SomeTime, parse_address

if TYPE_CHECKING:
    from shadow.stream.kafka import KafkaSettings

TOPIC = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,248}")


def _servers(value: object) -> object:
    """One text, parts by commas, is a list too."""
    servers = [each.strip() for each in value.split(",")] if isinstance(value, str) else value
    for server in servers if isinstance(servers, list) else ():
        if parse_address(server).port == 0:
            raise ValueError(f"{server!r} is not an address such as kafka:9092")
    return servers


def _topic(value: str) -> str:
    if not TOPIC.fullmatch(value):
        raise ValueError(f"{value!r} is not a topic's name: letters, digits, '.', '_', '-'")
    return value


Servers = Annotated[list[str], BeforeValidator(_servers), Field(min_length=1)]
Topic = Annotated[str, AfterValidator(_topic)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class KafkaTls(_Model):
    """How the brokers are verified. `tls: {}` trusts the system's authorities."""

    ca: Path | None = None
    """PEM file of the authorities to trust; without it, the system's."""
    certificate: Path | None = None
    """PEM file of the client's certificate (and its key, unless `key` is given)."""
    key: Path | None = None


class Kafka(_Model):
    """One Kafka. Passwords only as ${NAME}."""

    bootstrap_servers: Servers
    """host:port, one or more."""
    topic: Topic = "shadow.exchanges"
    dead_letter_topic: Topic = "shadow.dead-letters"
    group: str = Field(default="shadow-collector", min_length=1)
    """The collectors' consumer group."""
    client_id: str = Field(default="shadow", min_length=1)
    create_topic: bool = False
    """Create a topic that is missing, with the next three; else it is an error."""
    partitions: int = Field(default=12, ge=1)
    """As many collectors can share the work."""
    replication_factor: int | None = Field(default=None, ge=1)
    """Without it, the brokers' default."""
    retention: SomeTime = 7 * 86400.0
    compression: Literal["zstd", "lz4", "gzip", "none"] = "zstd"
    tls: KafkaTls | None = None
    """Without it, connections are plain."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    sasl_user: str | None = None
    sasl_password: str | None = None
    connect_timeout: Duration = Field(default=8.0, ge=1.0)
    """A connection that does not stand by then is tried again later."""
    append_timeout: Duration = Field(default=15.0, ge=1.0)
    """A batch that is not acknowledged by then waits in `spill`."""
    spill: Path = Path("data/spill")
    """Where records wait while Kafka is away."""
    spill_bytes: SomeBytes = 2**30
    """Of each worker; beyond it, dropped `log_full`."""

    @model_validator(mode="after")
    def _topics_differ(self) -> Self:
        if self.topic == self.dead_letter_topic:
            raise ValueError(
                f"dead_letter_topic: {self.topic} is topic too: each dead letter would be read as a"
                " record, and become one again; each needs its own"
            )
        return self

    @model_validator(mode="after")
    def _login_is_whole(self) -> Self:
        login = {
            "sasl_mechanism": self.sasl_mechanism,
            "sasl_user": self.sasl_user,
            "sasl_password": self.sasl_password,
        }
        missing = [key for key, value in login.items() if not value]
        if 0 < len(missing) < len(login):
            raise ValueError(f"a login needs {', '.join(login)}; missing: {', '.join(missing)}")
        return self


class KafkaStream(_Model):
    """Kafka between proxy and collector."""

    kafka: Kafka

    def settings(self) -> KafkaSettings:
        """As the stream's ends take it."""
        from shadow.stream.kafka import (  # noqa: PLC0415 kafka-python only where Kafka is used
            KafkaSettings,
            Sasl,
            Tls,
        )

        said, sasl = self.kafka, None
        if said.sasl_mechanism and said.sasl_user and said.sasl_password:
            sasl = Sasl(said.sasl_mechanism, said.sasl_user, said.sasl_password)
        return KafkaSettings(
            tuple(said.bootstrap_servers),
            said.topic,
            said.dead_letter_topic,
            partitions=said.partitions,
            replication_factor=said.replication_factor or -1,
            retention=said.retention,
            create_topic=said.create_topic,
            compression=said.compression,
            tls=Tls(said.tls.ca, said.tls.certificate, said.tls.key) if said.tls else None,
            sasl=sasl,
            client_id=said.client_id,
            group=said.group,
            connect_timeout=said.connect_timeout,
            append_timeout=said.append_timeout,
        )
