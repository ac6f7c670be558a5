"""Where Kafka is, how to log in there, and which topics are ours: frozen, and checked nowhere else.

`connection_options` turns it into kafka-python's words.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from shadow.stream import StreamUnavailable

Compression = Literal["zstd", "lz4", "gzip", "none"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@dataclass(frozen=True, slots=True)
class Tls:
    """How the brokers are verified, and what we show them."""

    ca: Path | None = None
    """PEM file of the authorities to trust; without it, the system's."""
    certificate: Path | None = None
    """PEM file of the client's certificate (and its key, unless `key` is given)."""
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class Sasl:
    """Who we are."""

    mechanism: Mechanism
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """One Kafka as one experiment's processes use it; durations in seconds."""

    bootstrap_servers: tuple[str, ...]
    topic: str = "shadow.exchanges"
    dead_letter_topic: str = "shadow.dead-letters"
    partitions: int = 12
    """Of a topic that is created here; an existing one stays as it is. So with the next two."""
    replication_factor: int = -1
    """-1: the brokers' default."""
    retention: float = 7 * 86400.0
    create_topic: bool = False
    """Whether a missing topic may be created; else it is a clear error."""
    compression: Compression = "zstd"
    tls: Tls | None = None
    sasl: Sasl | None = None
    client_id: str = "shadow"
    group: str = "shadow-collector"
    connect_timeout: float = 8.0
    """A connection that does not stand by then is unavailable: a wrong password takes this long."""
    append_timeout: float = 15.0
    """A batch that is not acknowledged by then is unavailable; above a change of leader's time."""

    @property
    def address(self) -> str:
        """The servers as a message names them."""
        return f"kafka at {','.join(self.bootstrap_servers)}"


def connection_options(settings: KafkaSettings) -> dict[str, Any]:
    """What every kafka-python client needs to connect and log in.

    Raises:
        StreamUnavailable: a TLS file cannot be used; one line that names it.
    """
    options: dict[str, Any] = {
        "bootstrap_servers": list(settings.bootstrap_servers),
        "client_id": settings.client_id,
        "security_protocol": _protocol(settings),
        "bootstrap_timeout_ms": int(settings.connect_timeout * 1000),
        "request_timeout_ms": 10_000,
        "reconnect_backoff_max_ms": 1000,
    }
    if settings.tls:
        options["ssl_context"] = _context(settings.tls)
    if settings.sasl:
        options["sasl_mechanism"] = settings.sasl.mechanism
        options["sasl_plain_username"] = settings.sasl.user
        options["sasl_plain_password"] = settings.sasl.password
    return options


def _protocol(settings: KafkaSettings) -> str:
    if settings.sasl:
        return "SASL_SSL" if settings.tls else "SASL_PLAINTEXT"
    return "SSL" if settings.tls else "PLAINTEXT"


def _context(tls: Tls) -> ssl.SSLContext:
    at = tls.ca
    try:
        context = ssl.create_default_context(cafile=at)
        at = tls.key or tls.certificate
        if tls.certificate:
            context.load_cert_chain(tls.certificate, tls.key)
    except OSError as error:  # ssl.SSLError is one
        raise StreamUnavailable(f"kafka tls: {at}: {error.strerror or error}") from error
    return context
