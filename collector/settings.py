"""What a collector process is told: where records come from, where rows go, how long they stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from collector.batch import BatchLimits
from collector.store import StoreSettings
from collector.tokenizer import CountTokens
from shadow.stream.kafka.settings import KafkaSettings


@dataclass(frozen=True, slots=True)
class Embedded:
    """chDB in the collector's own process, with ClickHouse's HTTP interface in front of it."""

    folder: Path
    listen: tuple[str, int]
    database: str = "shadow"
    user: str = "default"
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Settings:
    """One collector. `stream`: the embedded log's folder, or a Kafka; `store` likewise."""

    stream: Path | KafkaSettings
    store: Embedded | StoreSettings
    retention_bodies_s: float
    retention_measures_s: float
    capture: str
    batch: BatchLimits = field(default_factory=BatchLimits)
    count_tokens: Mapping[str, CountTokens] = field(default_factory=dict)
    """Tokenizers by arm, for engines that give no count of their own."""
    bad_records: int = 50
    """So many of the last 1,000, and over half, stop the collector (`BadRatio`); 0: none do."""
    group: str = "collector"
    """Of the embedded log; a Kafka's stands in its own settings."""
    drain_s: float = 10.0
    """Of the 15 s that a drain has; the rest is for the last insert and the store's closing."""
