"""What may stand in shadow.yaml. Unknown keys are mistakes, as are keys of features to come."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from shadow.config.kafka import KafkaStream
from shadow.config.units import Address, ByteSize, Duration, Listen

NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")
HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def _name(value: str) -> str:
    if not NAME.fullmatch(value):
        raise ValueError(
            f"{value!r} is not a name: small letters, digits, '_', '.', '-', at most 63"
        )
    return value


def _url(value: str) -> str:
    try:
        parts = urlsplit(value)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.username is not None or parts.query or parts.fragment:
        raise ValueError(f"{value!r} is not a URL such as http://engine:8000")
    return value.rstrip("/")


def _header(value: str) -> str:
    if not HEADER.fullmatch(value):
        raise ValueError(f"{value!r} is not a header name")
    return value.lower()


def _header_value(value: str) -> str:
    if any((ord(c) < 32 and c != "\t") or ord(c) == 127 for c in value):
        raise ValueError("a header value holds a control character")
    return value


def not_yet(what: str) -> BeforeValidator:
    """A key that is known, and refused until its feature exists: never ignored."""

    def refuse(value: object) -> object:
        if not value:
            return value
        raise ValueError(f"not yet: {what} is not in this version; leave the key out")

    return BeforeValidator(refuse)


def _sampling_key(value: object) -> object:
    if value == "conversation" or str(value).startswith("header:"):
        raise ValueError(
            f"not yet: {value} as a sampling key is not in this version; write request"
        )
    return value


Name = Annotated[str, AfterValidator(_name)]
Url = Annotated[str, AfterValidator(_url)]
HeaderName = Annotated[str, AfterValidator(_header)]
HeaderValue = Annotated[str, AfterValidator(_header_value)]
NotYet = Any
Kept = Annotated[Duration, Field(ge=3600.0, le=20 * 365 * 86400.0)]
"""An hour to twenty years: the store reckons the end of a row in 32-bit seconds."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Tls(_Model):
    """How an https upstream is verified."""

    ca: Path | None = None
    """PEM file of the authorities to trust; without it, the system's."""
    certificate: Path | None = None
    """PEM file of the client's certificate (and its key, unless `key` is given)."""
    key: Path | None = None
    server_name: str | None = None
    """SNI and the name to verify; without it, the URL's host."""


class Upstream(_Model):
    """A server that the proxy sends requests to."""

    url: Url
    build: str = ""
    """Any text that names the build; part of a comparison's identity."""
    tokenizer: Path | None = None
    """A tokenizer.json that counts output tokens where the engine gives no count of its own."""
    tls: Tls = Tls()
    connect_timeout: Duration = 5.0
    idle_timeout: Duration = 4.0
    """An idle connection is closed after this; below the 5 s at which uvicorn closes."""


class HeaderChanges(_Model):
    """Header fields of one arm's request: set replaces, remove takes away."""

    set: dict[HeaderName, HeaderValue] = {}
    remove: list[HeaderName] = []


class Arm(Upstream):
    """One upstream's place in an experiment beside the primary."""

    role: Literal["candidate", "control"]
    sample: float = Field(ge=0, le=1)
    """The share of eligible requests that this arm gets; it has no default."""
    key: Annotated[Literal["request"], BeforeValidator(_sampling_key)] = "request"
    models: Annotated[dict[str, str], not_yet("the rewriting of model names")] = {}
    headers: HeaderChanges = HeaderChanges()
    factors: dict[str, str] = {}
    """What this arm tries out, in words; part of a comparison's identity."""
    deadline: Duration = 120.0
    """Over the wait in the proxy plus the whole stream."""
    concurrency: int = Field(default=200, ge=1)
    """Open requests of this arm alone; one more is dropped and counted."""


class EmbeddedStream(_Model):
    """The embedded log: SQLite files in a folder."""

    embedded: Path
    max_bytes: ByteSize = 4 * 2**30
    """All files of one worker together; a full log refuses, counted `log_full`."""
    max_age: Duration = 7 * 86400.0
    """Records that were read stay this long at most."""


class EmbeddedStore(_Model):
    """chDB in the collector's process, with ClickHouse's HTTP interface in front of it."""

    embedded: Path
    listen: Listen = Address("127.0.0.1", 8123)
    database: Name = "shadow"
    user: str = "default"
    password: str = ""


class ClickHouse(_Model):
    """A ClickHouse server, by HTTP. The password only as ${NAME}."""

    url: Url
    database: Name = "shadow"
    user: str = "default"
    password: str = ""
    ca: Path | None = None
    """PEM file of the authorities to trust for https; without it, the system's."""
    cluster: Annotated[str | None, Field(min_length=1)] = None
    """Tables are made replicated and distributed over this cluster."""


class ClickHouseStore(_Model):
    """A ClickHouse server as the store."""

    clickhouse: ClickHouse


def _which(word: str) -> Callable[[object], str]:
    """Which of two models stands there: the one that names its kind by the key `word`."""

    def kind(value: object) -> str:
        named = word in value if isinstance(value, dict) else hasattr(value, word)
        return f"<{word}>" if named else "<embedded>"

    return kind


Stream = Annotated[
    Annotated[EmbeddedStream, Tag("<embedded>")] | Annotated[KafkaStream, Tag("<kafka>")],
    Discriminator(_which("kafka")),
]
Store = Annotated[
    Annotated[EmbeddedStore, Tag("<embedded>")] | Annotated[ClickHouseStore, Tag("<clickhouse>")],
    Discriminator(_which("clickhouse")),
]


class Retention(_Model):
    """How long rows are kept."""

    bodies: Kept = 7 * 86400.0
    measures: Kept = 90 * 86400.0


class Limits(_Model):
    """Every bound that a user could meet."""

    request_bytes: ByteSize = 8 * 2**20
    """Larger requests are relayed, not mirrored: skipped `body_too_large`."""
    answer_bytes: ByteSize = 8 * 2**20
    """An answer's captured head."""
    answer_tail: ByteSize = 64 * 2**10
    """An answer's captured end, beyond `answer_bytes`."""
    queue_bytes: ByteSize = 64 * 2**20
    """Captures that wait for the stream; beyond it, dropped `queue_full`."""
    header_bytes: ByteSize = 64 * 2**10
    """All fields of one head; beyond it 431."""


class Admin(_Model):
    """Ports for operators: health and metrics; reports and control."""

    health: Listen = Address("127.0.0.1", 9091)
    """The proxy's; the n-th of several workers listens n ports above."""
    collector: Listen | None = None
    """The collector's; without it, it has none."""
    analysis: Listen | None = None
    """The analysis'; without it, it has none."""
    control: Listen | None = None
    """Reports and verdicts, served by the analysis; without it, they are not served."""
    token: str = ""
    """What callers of the control port must show; needed where that is not on loopback."""

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        if self.control and not self.token and not _on_loopback(self.control.host):
            raise ValueError(f"token: needed, since control listens on {self.control}")
        return self


def _on_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _yaml_bool_off(value: object) -> object:
    """YAML 1.1 reads a bare off as false."""
    return "off" if value is False else value


def _isolation(value: object) -> object:
    if value in (False, "off"):
        return "off"
    raise ValueError(
        "not yet: shadow-off windows and self-pause are not in this version; write off"
    )


class Config(_Model):
    """One experiment. See docs/configuration.md for each key's meaning and default."""

    experiment: Name
    listen: Listen = Address("127.0.0.1", 8080)
    attach: Literal["inline"] = "inline"
    capture: Literal["full", "text"]
    """full: raw answers are stored too; text: prompt and decoded answer; it has no default."""
    primary: Upstream
    arms: dict[Name, Arm] = {}
    stream: Stream
    store: Store
    retention: Retention = Retention()
    policy: Path | None = None
    """Without it, the default policy judges."""
    stop_at: Annotated[NotYet, not_yet("an end by pairs, hours or verdict")] = None
    isolation: Annotated[Literal["off"], BeforeValidator(_isolation)] = "off"
    limits: Limits = Limits()
    retry_stale: Annotated[
        Literal["off", "idempotent", "fresh_close"], BeforeValidator(_yaml_bool_off)
    ] = "fresh_close"
    drain: Duration = 150.0
    admin: Admin = Admin()
    workers: int = Field(default=1, ge=1, le=64)
    """Proxy processes that share the port (SO_REUSEPORT)."""
    state: Path = Path("data/state")
    """Counters that survive kill -9."""
    mirror_paths: list[str] = [
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/embeddings",
        "/v1/messages",
    ]
    """POSTs to these paths are eligible; the query does not count."""

    @model_validator(mode="before")
    @classmethod
    def _later_words(cls, data: object) -> object:
        """Known words whose feature is to come say so, instead of 'unexpected value'."""
        if isinstance(data, dict):
            if data.get("attach") == "tap":
                raise ValueError("attach: not yet: tap is not in this version; write inline")
            if data.get("capture") == "measures":
                raise ValueError("capture: not yet: measures is not in this version; write text")
        return data

    @model_validator(mode="after")
    def _names_are_free(self) -> Self:
        if "primary" in self.arms:
            raise ValueError("arms.primary: the name primary is taken by the primary itself")
        if urlsplit(self.primary.url).path:
            raise ValueError("primary.url: a path cannot stand in it: requests pass with their own")
        controls = [name for name, arm in self.arms.items() if arm.role == "control"]
        if len(controls) > 1:
            raise ValueError(f"arms: one control at most, not {', '.join(controls)}")
        return self

    @property
    def candidates(self) -> list[str]:
        """Names of the candidate arms, in the file's order."""
        return [name for name, arm in self.arms.items() if arm.role == "candidate"]

    @property
    def control(self) -> str | None:
        """Name of the control arm, where there is one."""
        return next((name for name, arm in self.arms.items() if arm.role == "control"), None)
