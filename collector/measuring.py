"""`shadow measure`: takes captures from the proxies of its host, publishes what was measured.

Texts are in this process' memory while they are read, and nowhere else: no core file, no dump.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from collector.folder import unusable
from collector.measured import Secret, measured
from collector.process import BAD_WORLD, NICENESS, USAGE, stop_on_signals
from collector.tokenizer import CountTokens
from shadow.stream import Producer, StreamUnavailable
from shadow.stream.embedded import EmbeddedProducer
from shadow.stream.handover import Handover
from shadow.stream.kafka import KafkaProducerStream, KafkaSettings
from shadow.stream.spill import Spill

log = structlog.get_logger("shadow.measure")


@dataclass(frozen=True, slots=True)
class ToLog:
    """The embedded log, as the proxy would write it."""

    folder: Path
    max_bytes: int
    max_age_s: float


@dataclass(frozen=True, slots=True)
class ToKafka:
    """Kafka; while it is away, measured records wait on disk."""

    settings: KafkaSettings
    spill: Path
    spill_bytes: int


@dataclass(frozen=True, slots=True)
class Settings:
    """One process that measures."""

    folder: Path
    """Of the socket."""
    stream: ToLog | ToKafka
    count_tokens: Mapping[str, CountTokens] = field(default_factory=dict)


def run(settings: Settings) -> int:
    """Measure until SIGTERM or SIGINT; what is in hand then is published.

    Returns:
        Exit status: 0; 2 where the socket's folder cannot be used, 75 where another process has it.
    """
    if why := unusable(settings.folder):
        sys.stderr.write(f"shadow measure: measure.folder: {why}\n")
        return USAGE
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    secret = Secret()
    with stop_on_signals() as stopping:
        try:
            handover = Handover(
                settings.folder,
                lambda worker: producer(settings.stream, worker),
                lambda value: measured(value, secret, settings.count_tokens),
            )
        except StreamUnavailable as error:
            sys.stderr.write(f"shadow measure: {error}\n")
            return BAD_WORLD
        log.info("measuring what the proxies hand over", folder=str(settings.folder))
        handover.serve(stopping.is_set)
    log.info("ended", records=handover.records_total, withheld=handover.withheld_total)
    return 0


def producer(stream: ToLog | ToKafka, worker: str) -> Producer:
    """Where a worker's measured records go.

    Raises:
        StreamUnavailable: the stream cannot be used now.
    """
    if isinstance(stream, ToLog):
        return EmbeddedProducer(stream.folder, worker, stream.max_bytes, stream.max_age_s)
    remote = KafkaProducerStream(stream.settings)
    return Spill(remote, stream.spill / worker, worker, stream.spill_bytes)
