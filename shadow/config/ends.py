"""The two ends of a record's way: the stream that carries it, the store that keeps it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from shadow.config.kafka import KafkaStream
from shadow.config.units import Address, Duration, Listen, SomeBytes, SomeTime
from shadow.config.words import Name, Part, Url

Kept = Annotated[Duration, Field(ge=3600.0, le=20 * 365 * 86400.0)]
"""An hour to twenty years: the store reckons the end of a row in 32-bit seconds."""


_ENGINES = frozenset({"system", "information_schema"})


def _database(value: str) -> str:
    if value in _ENGINES:
        raise ValueError(f"{value} is the engine's own; choose another name, such as shadow")
    return value


def _served_database(value: str) -> str:
    if value == "default":
        raise ValueError(
            "default is the engine's own and cannot be served; choose another name, such as shadow"
        )
    return value


Database = Annotated[Name, AfterValidator(_database)]


class EmbeddedStream(Part):
    """The embedded log: SQLite files in a folder."""

    embedded: Path
    max_bytes: SomeBytes = 4 * 2**30
    """All files of one worker together; a full log refuses, counted `log_full`."""
    max_age: SomeTime = 7 * 86400.0
    """Records stay this long at most, read or not."""


class EmbeddedStore(Part):
    """chDB in the collector's process, with ClickHouse's HTTP interface in front of it."""

    embedded: Path
    listen: Listen = Address("127.0.0.1", 8123)
    database: Annotated[Database, AfterValidator(_served_database)] = "shadow"
    user: str = "default"
    password: str = ""
    """What whoever reads by HTTP must show; needed where that is not on loopback."""

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        if not self.password and not self.listen.on_loopback:
            raise ValueError(f"password: needed, since listen is {self.listen}; use ${{NAME}}")
        return self


class ClickHouse(Part):
    """A ClickHouse server, by HTTP. The password only as ${NAME}."""

    url: Url
    database: Database = "shadow"
    user: str = "default"
    password: str = ""
    ca: Path | None = None
    """PEM file of the authorities to trust for https; without it, the system's."""
    cluster: Annotated[str | None, Field(min_length=1)] = None
    """Tables are made replicated and distributed over this cluster."""


class ClickHouseStore(Part):
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


class Retention(Part):
    """How long rows are kept."""

    bodies: Kept = 7 * 86400.0
    measures: Kept = 90 * 86400.0
