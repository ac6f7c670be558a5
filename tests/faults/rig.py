"""A real proxy process with arms, beside it one without: the same load through both, in turns.

What a scenario may not change: the clients' bytes, their times (held against the proxy without
arms, in the same seconds), the process's memory and files, the books.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import statistics
import time
import urllib.request
from collections import Counter
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from end_to_end.stage import SHADOW, answers, free_port, process, until
from faults.engines import answer_of

from shadow.exchange import Accounting, Exchange, decode
from shadow.stream.embedded import EmbeddedConsumer

WELL = {"role": "candidate", "sample": 1.0, "idle_timeout": "1s"}
BEGAN = "reached", "connect_failed", "breaker_open", "unsent"
BEFORE = {"concurrency", "memory", "rate", "budget", "request_incomplete", "primary_unreachable"}
"""Drops of what was never begun; of the others some may have been."""


@dataclass
class Proxy:
    """A running `shadow proxy`."""

    port: int
    health: int
    pid: int
    folder: Path

    def metrics(self) -> dict[str, float]:
        """Name with labels → value."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/metrics", timeout=10) as page:
            lines = page.read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and line[0] != "#")
        return {name: float(value) for name, value in pairs}

    def rss_mb(self) -> float:
        text = Path(f"/proc/{self.pid}/statm").read_text()
        return int(text.split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20

    def files(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self.pid}/fd").iterdir())


@contextmanager
def proxy(folder: Path, primary: str, arms: dict[str, dict], **more):
    """`shadow proxy` with everything in `folder`; it drains at the end."""
    folder.mkdir()
    listen, health = free_port(), free_port()
    tree = {
        "experiment": "faults",
        "listen": f"127.0.0.1:{listen}",
        "capture": "full",
        "primary": {"url": primary, "idle_timeout": "1s"},
        "arms": {name: {**WELL, **arm} for name, arm in arms.items()},
        "stream": {"embedded": str(folder / "stream")},
        "store": {"embedded": str(folder / "store"), "listen": f"127.0.0.1:{free_port()}"},
        "state": str(folder / "state"),
        "admin": {"health": f"127.0.0.1:{health}"},
        "drain": "10s",
        "isolation": "off",  # no random second without mirroring
    } | more
    config = folder / "shadow.yaml"
    config.write_text(yaml.safe_dump(tree))
    with process([*SHADOW, "proxy", "-c", str(config)], folder / "log") as child:
        until(lambda: answers(f"http://127.0.0.1:{health}/healthz"), what=f"a proxy in {folder}")
        until(lambda: _listening(listen), what=f"a listener in {folder}")
        yield Proxy(listen, health, child.pid, folder)


def _listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Load:
    """What the clients saw."""

    with_arms_s: list[float] = field(default_factory=list)
    without_s: list[float] = field(default_factory=list)
    rss_mb: list[float] = field(default_factory=list)

    def added_s(self, quantile: float) -> float:
        """How much later an answer was whole because of the arms."""
        return _quantile(self.with_arms_s, quantile) - _quantile(self.without_s, quantile)


def _quantile(times: list[float], quantile: float) -> float:
    return statistics.quantiles(times, n=1000)[round(quantile * 1000) - 1]


def chat(number: int, size: int) -> bytes:
    words = f"request {number} " + "w" * size
    return json.dumps(
        {"model": "m", "stream": True, "messages": [{"role": "user", "content": words}]}
    ).encode()


class Client:
    """One kept connection; every byte of every answer is compared."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, body: bytes, expected: bytes) -> float:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self.port, limit=2**24)
        reader, writer = self._streams
        began = time.perf_counter()
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: engine\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        got = await asyncio.wait_for(reader.readexactly(len(expected)), 60)
        took = time.perf_counter() - began
        assert got == expected, "the client's bytes changed"
        return took

    async def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            await self._streams[1].wait_closed()


async def drive(
    tested: Proxy,
    plain: Proxy,
    requests: int,
    at_once: int,
    *,
    count: int = 5,
    size: int = 0,
    pause_s: float = 0.03,
) -> Load:
    """`requests` through each, `at_once` clients, each asking the two in turns.

    They pause, since clients, primary and arms share this process: in a closed loop what the arms
    cost here would show as the proxy's.
    """
    load = Load()
    numbers = iter(range(requests))

    async def client() -> None:
        pair = Client(tested.port), Client(plain.port)
        try:
            for number in numbers:
                body = chat(number, 200)
                expected = answer_of(body, count, size)
                order = (0, 1) if number % 2 else (1, 0)
                for which in order:
                    await asyncio.sleep(pause_s)
                    took = await pair[which].ask(body, expected)
                    (load.without_s if which else load.with_arms_s).append(took)
                if number % max(requests // 20, 1) == 0:
                    load.rss_mb.append(tested.rss_mb())
        finally:
            for each in pair:
                await each.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(client())
    return load


@dataclass
class Books:
    """What the log holds after the proxy has ended."""

    counts: Counter[tuple[str, str, str]]
    """The last accounting record: (arm, counter, reason) → n."""
    exchanges: Counter[tuple[str, str]]
    """(arm, transport) → records."""
    open_ended: bool

    def total(self, arm: str, counter: str) -> int:
        return sum(n for (a, c, _), n in self.counts.items() if (a, c) == (arm, counter))

    def stored(self, arm: str) -> int:
        return sum(n for (a, _), n in self.exchanges.items() if a == arm)

    def reached(self, arm: str) -> int:
        """Requests that were written to a connection, as the proxy counted them."""
        return self.counts[arm, "reached", ""]

    def balance(self, arm: str) -> None:
        """The equations, with nothing pending and nothing lost."""
        assert self.total(arm, "eligible") == self.total(arm, "sampled") + self.total(
            arm, "skipped"
        )
        assert self.total(arm, "sampled") == self.stored(arm) + self.total(arm, "dropped")
        began = sum(self.total(arm, counter) for counter in BEGAN)
        dropped = {r: n for (a, c, r), n in self.counts.items() if (a, c) == (arm, "dropped")}
        late = sum(n for reason, n in dropped.items() if reason not in BEFORE)
        assert self.stored(arm) <= began <= self.stored(arm) + late
        for word in ("connect_failed", "breaker_open"):
            assert self.total(arm, word) >= self.exchanges[arm, word]


def books(folder: Path) -> Books:
    """Read the whole log of a proxy that has ended."""
    consumer = EmbeddedConsumer(folder / "stream", "test")
    exchanges: Counter[tuple[str, str]] = Counter()
    last: Accounting | None = None
    seen: set[int] = set()
    try:
        while batch := consumer.poll(5000, 0.0):
            for delivered in batch:
                record = decode(delivered.value)
                if isinstance(record, Exchange):
                    assert record.sequence not in seen
                    seen.add(record.sequence)
                    exchanges[record.arm, record.transport] += 1
                elif last is None or record.sequence > last.sequence:
                    last = record
    finally:
        consumer.close()
    assert last is not None
    counts = Counter({(c.arm, c.counter, c.reason): c.value for c in last.counts})
    return Books(counts, exchanges, not last.final)


@asynccontextmanager
async def running(tmp_path: Path, primary: str, arms: dict[str, dict], **more):
    """(proxy with the arms, proxy without), both in front of `primary`."""
    stack = ExitStack()
    start = stack.enter_context
    try:
        tested = await asyncio.to_thread(start, proxy(tmp_path / "tested", primary, arms, **more))
        plain = await asyncio.to_thread(start, proxy(tmp_path / "plain", primary, {}))
        yield tested, plain
    finally:
        await asyncio.to_thread(stack.close)
