"""Every place where something of an exchange could be, as bytes to search."""

from __future__ import annotations

import gzip
import re
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from privacy.loose_engine import CLOSE_TO, NEEDLES

from collector.decode import completion_of
from shadow.exchange import Exchange, MalformedRecord, decode
from shadow.stream.embedded import EmbeddedConsumer

Sink = tuple[str, bytes]


def leaks(sinks: Iterator[Sink]) -> dict[str, set[bytes]]:
    """Sink → what it holds of what it must not."""
    found: dict[str, set[bytes]] = {}
    for name, content in sinks:
        plain = content.replace(b"\\u002e", b".").replace(b"\\", b"")
        for needle in (*NEEDLES, *CLOSE_TO):
            # a number may stand in the middle of another, of a time for one
            pattern = rb"(?<!\d)" + re.escape(needle) + rb"(?!\d)"
            if re.search(pattern, content) or re.search(pattern, plain):
                found.setdefault(name, set()).add(needle)
    return found


def files(name: str, folder: Path) -> Iterator[Sink]:
    """Raw files, as they lie on the disk."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield f"{name}: file", path.read_bytes()


def records(folder: Path) -> Iterator[Sink]:
    """What the embedded log holds: every record, unpacked, and its answer as it reads."""
    consumer = EmbeddedConsumer(folder, "a test")
    try:
        while batch := consumer.poll(500, 0.2):
            for delivered in batch:
                yield "stream: key", delivered.key
                yield from record(delivered.value)
            consumer.commit({each.partition: each.offset + 1 for each in batch})
    finally:
        consumer.close()


def record(value: bytes) -> Iterator[Sink]:
    """One record, unpacked."""
    yield "stream: record", value
    told = None
    with suppress(MalformedRecord):
        told = decode(value)
    if isinstance(told, Exchange):
        yield "stream: body", told.body
        if told.body.startswith(b"\x1f\x8b"):
            yield "stream: body, unpacked", gzip.decompress(told.body)
        yield "stream: request", told.request or b""
        yield "stream: answer", str(asdict(completion_of(told))).encode()


def tables(port: int) -> Iterator[Sink]:
    """Every column of every row of every table."""
    for table in ask(port, "SELECT name FROM system.tables WHERE database = 'shadow'").split():
        rows = ask(port, f"SELECT * FROM shadow.{table.decode()} FORMAT JSONEachRow")
        yield f"table: {table.decode()}", rows.replace(b"\\/", b"/")


def ask(port: int, statement: str) -> bytes:
    query = urllib.parse.urlencode({"query": statement})
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/?{query}", timeout=20) as answer:
        return answer.read()
