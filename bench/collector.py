"""How fast one collector process carries exchanges from the stream into the embedded store.

The stream is the Kafka of KAFKA_BOOTSTRAP_SERVERS where that is set, else the embedded log.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

import yaml

from bench.answers import exchanges
from bench.measure import cpu_s, peak_bytes
from bench.peers import free_ports, running
from shadow.config import Config, config_hash, load
from shadow.config.kafka import KafkaStream
from shadow.exchange import encode
from shadow.stream import Message
from shadow.stream.embedded import EmbeddedProducer
from shadow.stream.kafka import KafkaProducerStream

Say = Callable[[str], None]

BATCH = 200
LOOK_S = 0.1
PATIENCE_S = 300.0

SERVERS = "KAFKA_BOOTSTRAP_SERVERS"

HOW = """\
The stream is filled with pairs of streamed chat answers, 100 tokens each (an event a token, 20 kB of
events), then `shadow collect` runs on an empty embedded store, free to use every core. The rate is
that between the first and the last stored row, as counted over HTTP; bytes are those of the
records in the stream, deflated. The store is counted at the end: every exchange must be in it."""


class Options(Protocol):
    """What this benchmark reads of the command line."""

    exchanges: int


def write_config(folder: Path, store_port: int) -> Path:
    """A configuration with one candidate, whose upstreams are never called."""
    config = {
        "experiment": "bench",
        "capture": "text",
        "primary": {"url": "http://127.0.0.1:1"},
        "arms": {"candidate": {"role": "candidate", "url": "http://127.0.0.1:1", "sample": 1.0}},
        "stream": stream(folder),
        "store": {"embedded": str(folder / "store"), "listen": f"127.0.0.1:{store_port}"},
        "state": str(folder / "state"),
    }
    path = folder / "bench.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def stream(folder: Path) -> dict[str, object]:
    """A topic of this run's own, or the embedded log."""
    servers, run = os.environ.get(SERVERS), f"shadow.bench-{time.time_ns():x}"
    if not servers:
        return {"embedded": str(folder / "stream")}
    said = {"bootstrap_servers": servers, "topic": run, "dead_letter_topic": f"{run}.dead"}
    return {"kafka": {**said, "group": run, "create_topic": True, "partitions": 4}}


def fill(config: Config, count: int, identity: str) -> int:
    """Write `count` exchanges into the stream; returns the bytes of their records."""
    said = config.stream
    producer = (
        KafkaProducerStream(said.settings())
        if isinstance(said, KafkaStream)
        else EmbeddedProducer(said.embedded, "0")
    )
    source = exchanges(count // 2, time.time_ns(), "bench", identity)
    size_bytes = 0
    while batch := [Message(e.pair_id.encode(), encode(e)) for e in islice(source, BATCH)]:
        producer.append(batch)
        size_bytes += sum(len(message.value) for message in batch)
    producer.close()
    return size_bytes


def asked(port: int, query: str) -> str:
    """What the store's HTTP interface answers; empty while it cannot."""
    try:
        request = Request(f"http://127.0.0.1:{port}/?database=shadow&query={quote(query)}")
        with urlopen(request, timeout=30) as answer:
            return str(answer.read().decode().strip())
    except (URLError, ConnectionError):
        return ""


def stored(port: int) -> int:
    """Rows in the store now."""
    return int(asked(port, "SELECT count() FROM exchanges") or 0)


def collect(config: Path, port: int, count: int, folder: Path) -> dict[str, float]:
    """Run the collector until `count` rows are stored.

    Raises:
        RuntimeError: they are not, after `PATIENCE_S`, or one is there twice.
    """
    command = [sys.executable, "-m", "shadow", "collect", "-c", str(config)]
    with running(command, None, port, folder / "collector.log") as pid:
        first_s, first_rows, rows = 0.0, 0, 0
        deadline_s = time.monotonic() + PATIENCE_S
        while rows < count and time.monotonic() < deadline_s:
            rows, now_s = stored(port), time.monotonic()
            if rows and not first_rows:
                first_s, first_rows = now_s, rows
            time.sleep(LOOK_S)
        figures = {
            "exchanges_per_s": (rows - first_rows) / (now_s - first_s),
            "cpu_s_per_1000": cpu_s(pid) / count * 1000,
            "peak_mib": peak_bytes(pid) / 2**20,
        }
        exact = asked(port, "SELECT uniqExact(pair_id, arm) FROM exchanges")
        if rows != count or int(exact) != count:
            raise RuntimeError(f"{count} exchanges were due, {rows} rows hold {exact} of them")
    return figures


def main(options: Options, _absent: Sequence[str], say: Say) -> dict[str, object]:
    """What the command line asks for."""
    with tempfile.TemporaryDirectory(prefix="shadow-bench-") as base:
        folder, (port,) = Path(base), free_ports(1)
        config = write_config(folder, port)
        kind = "a real Kafka broker" if os.environ.get(SERVERS) else "the embedded log"
        say(f"writing {options.exchanges:,} exchanges into {kind} ...")
        loaded = load(config, Config)
        size_bytes = fill(loaded, options.exchanges, config_hash(loaded))
        figures = collect(config, port, options.exchanges, folder)
    record_bytes = size_bytes / options.exchanges
    figures |= {
        "record_bytes": record_bytes,
        "mb_per_s": figures["exchanges_per_s"] * record_bytes / 1e6,
    }
    say("collector  " + " ".join(f"{name}={value:.4g}" for name, value in figures.items()))
    settings = {"exchanges": options.exchanges, "stream": kind}
    return {"settings": settings, "figures": figures, "how": HOW}
