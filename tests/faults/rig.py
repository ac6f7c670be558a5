"""A real proxy process with arms, beside it one without: the same load through both, in turns.

What a scenario may not change: the clients' bytes, their times (held against the proxy without
arms, in the same seconds), the process's memory and files, the books.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import socket
import statistics
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import yaml
from end_to_end.stage import SHADOW, answers, free_port, process, until
from faults.engines import answer_of
from faults.watched import most_held_ms

from shadow.exchange import Accounting, Exchange, decode
from shadow.stream.embedded import EmbeddedConsumer

WELL = {"role": "candidate", "sample": 1.0, "idle_timeout": "500ms"}
COUNTED = re.compile(
    r'shadow_(?P<counter>[a-z_]+)_total\{arm="(?P<arm>[^"]+)"(,reason="(?P<reason>[^"]+)")?\}'
)
WATCHED = Path(__file__).parent / "watched.py"
BEGAN = "reached", "connect_failed", "breaker_open", "unsent"
BEFORE = {"concurrency", "memory", "rate", "budget", "request_incomplete", "primary_unreachable"}
"""Drops of what was never begun; of the others some may have been."""


class Standing(NamedTuple):
    """What a process has open; a fault may leave none of it behind."""

    files: int
    threads: int
    tasks: int


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

    def standing(self, figures: dict[str, float]) -> Standing:
        """Now; the tasks are those of the figures."""
        files, threads = (
            sum(1 for _ in Path(f"/proc/{self.pid}/{each}").iterdir()) for each in ("fd", "task")
        )
        return Standing(files, threads, int(figures["shadow_loop_tasks"]))

    async def rest(self, standing: Standing | None = None, seconds: float = 30.0) -> Standing:
        """Wait until nothing is open, queued or in work, and no more stands than did before.

        Without `standing` (at the start): until two looks find the same.
        """
        last: Standing | None = None
        for _ in range(round(seconds * 20)):
            figures = await asyncio.to_thread(self.metrics)
            await asyncio.sleep(0.05)  # that look's own connection is gone
            now = self.standing(figures)
            idle = not figures["shadow_relay_open_streams"] and not figures["shadow_queue_bytes"]
            assert not figures["shadow_relay_mirror_errors_total"], "a fault of shadow's own"
            if idle and (now == last if standing is None else _within(now, standing)):
                return now
            last = now
        raise AssertionError(f"{now} is more than {standing}; open, queued: {not idle}")

    def held_ms(self, since: float, until: float) -> float:
        """For how long a watched proxy's loop was held in this time (of the monotonic clock), as
        watched.py tells it from what the host does. Once it has ended.
        """
        lines = (line.split() for line in (self.folder / "ticks").read_text().splitlines())
        ticks = [float(held) for at, _, held in lines if since < float(at) < until]
        assert len(ticks) > 200, "it was not watched"
        most = most_held_ms(ticks)
        print(f"\nheld {most:.1f} ms; once {max(ticks):.1f}")  # noqa: T201 what one watches in make soak
        return most


def _within(now: Standing, before: Standing) -> bool:
    return all(a <= b for a, b in zip(now, before, strict=True))


@contextmanager
def proxy(folder: Path, primary: str, arms: dict[str, dict], *, watched: bool = False, **more):
    """`shadow proxy` with everything in `folder`; it drains at the end."""
    folder.mkdir()
    command = [sys.executable, str(WATCHED), str(folder / "ticks")] if watched else SHADOW
    listen, health = free_port(), free_port()
    tree = {
        "experiment": "faults",
        "listen": f"127.0.0.1:{listen}",
        "capture": "full",
        "primary": {"url": primary, "idle_timeout": "500ms"},
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
    with process([*command, "proxy", "-c", str(config)], folder / "log") as child:
        until(lambda: answers(f"http://127.0.0.1:{health}/healthz"), what=f"a proxy in {folder}")
        until(lambda: _listening(listen), what=f"a listener in {folder}")
        yield Proxy(listen, health, child.pid, folder)
    assert child.returncode == 0, (folder / "log").read_text()[-4000:]


def _listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Load:
    """What the clients saw."""

    with_arms_s: list[float] = field(default_factory=list)
    without_s: list[float] = field(default_factory=list)
    rss_mb: list[float] = field(default_factory=list)
    took_s: float = 0.0

    def __add__(self, more: Load) -> Load:
        return Load(
            self.with_arms_s + more.with_arms_s,
            self.without_s + more.without_s,
            self.rss_mb + more.rss_mb,
            self.took_s + more.took_s,
        )

    def grown_mb(self) -> float:
        """By how much the largest of the second half is above the largest of the first."""
        half = len(self.rss_mb) // 2
        return max(self.rss_mb[half:]) - max(self.rss_mb[:half])

    def line(self) -> str:
        added = ", ".join(
            f"p{100 * q:g} {1e3 * self.added_s(q):+.2f} ms" for q in (0.5, 0.95, 0.99)
        )
        memory = f"{max(self.rss_mb):.0f} MB, {self.grown_mb():+.1f} in the second half"
        return f"\n{len(self.with_arms_s)} requests in {self.took_s:.0f} s: {added}; {memory}"

    def whole_s(self, quantile: float) -> float:
        """When an answer through the proxy with arms was whole."""
        return _quantile(self.with_arms_s, quantile)

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


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Client:
    """One kept connection; every byte of every answer is compared."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._streams: Streams | None = None

    async def connect(self) -> Streams:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self.port, limit=2**24)
        return self._streams

    async def ask(self, body: bytes, expected: bytes) -> float:
        reader, writer = await self.connect()
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
    plain_every: int = 1,
) -> Load:
    """`requests` through each, `at_once` clients, each asking the two in turns; the one without
    arms every n-th time.

    They pause, since clients, primary and arms share this process: in a closed loop what the arms
    cost here would show as the proxy's.
    """
    load = Load()
    numbers = iter(range(requests))
    began = time.monotonic()

    async def client() -> None:
        pair = Client(tested.port), Client(plain.port)
        try:
            for number in numbers:
                body = chat(number, 200)
                expected = answer_of(body, count, size)
                order = (0, 1) if number % 2 else (1, 0)
                for which in order[: 2 if number % plain_every == 0 else 0] or (0,):
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
    load.took_s = time.monotonic() - began
    return load


Drive = Callable[[], Awaitable[Load]]


async def in_time(
    once: Drive, again: Drive | None = None, later_ms: tuple[float, float] = (5.0, 25.0)
) -> Load:
    """Half of the answers at once, 19 of 20 within what a busy machine does to both; or in twice
    the time without arms, where it is so busy that this is more.

    Asked again once where they were not: a short burst of a neighbour's may meet one of the two
    proxies alone; what a fault does, it does again.
    """
    load = await once()
    if late := _late(load, later_ms):
        second = await (again or once)()
        assert not (still := _late(second, later_ms)), (late, still)
        load += second
    print(load.line(), flush=True)  # noqa: T201 what one watches in make soak
    return load


def _late(load: Load, later_ms: tuple[float, float]) -> str:
    added = [1e3 * load.added_s(quantile) for quantile in (0.5, 0.95)]
    usual = [1e3 * _quantile(load.without_s, quantile) for quantile in (0.5, 0.95)]
    late = any(ms > max(bounds) for ms, *bounds in zip(added, later_ms, usual, strict=True))
    return f"{added} ms later than {usual}" if late else ""


async def crowd(proxy: Proxy, most: int, count: int = 5) -> Load:
    """`most` clients, each with a connection that stands, ask this one proxy at the same time."""
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, allowed))
    load = Load()
    clients = [Client(proxy.port) for _ in range(most)]

    async def ask(number: int) -> None:
        body = chat(number, 200)
        load.with_arms_s.append(await clients[number].ask(body, answer_of(body, count)))

    async def watch() -> None:
        while len(load.with_arms_s) < most:
            load.rss_mb.append(proxy.rss_mb())
            await asyncio.sleep(0.1)

    try:
        for client in clients:
            await client.connect()
        async with asyncio.TaskGroup() as group:
            for number in range(most):
                group.create_task(ask(number))
            group.create_task(watch())
    finally:
        for client in clients:
            await client.close()
    return load


@dataclass
class Books:
    """What the log holds after the proxy has ended."""

    counts: Counter[tuple[str, str, str]]
    """The last accounting record: (arm, counter, reason) → n."""
    exchanges: Counter[tuple[str, str]]
    """(arm, transport) → records."""
    open_ended: bool

    @classmethod
    def of(cls, metrics: dict[str, float]) -> Books:
        """What /metrics says of the arms."""
        counts: Counter[tuple[str, str, str]] = Counter()
        for name, value in metrics.items():
            if said := COUNTED.fullmatch(name):
                counts[said["arm"], said["counter"], said["reason"] or ""] = int(value)
        return cls(counts, Counter(), open_ended=True)

    @classmethod
    def counted(cls, record: Accounting) -> Books:
        """What an accounting record says."""
        counts = Counter({(c.arm, c.counter, c.reason): c.value for c in record.counts})
        return cls(counts, Counter(), open_ended=not record.final)

    def total(self, arm: str, counter: str) -> int:
        return sum(n for (a, c, _), n in self.counts.items() if (a, c) == (arm, counter))

    def dropped(self, arm: str) -> set[str]:
        """For which reasons."""
        return {r for (a, c, r), n in self.counts.items() if (a, c) == (arm, "dropped") and n}

    def stored(self, arm: str) -> int:
        return sum(n for (a, _), n in self.exchanges.items() if a == arm)

    def reached(self, arm: str) -> int:
        """Requests that were written to a connection, as the proxy counted them."""
        return self.counts[arm, "reached", ""]

    def balance(self, arm: str) -> None:
        """The equations, with nothing pending and nothing lost, and the log has what was counted."""
        assert self.total(arm, "captured") == self.stored(arm)
        assert self.total(arm, "pending") == self.total(arm, "lost") == 0
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


def records(log: Path) -> Iterator[Exchange | Accounting]:
    """Everything in a log, once."""
    consumer = EmbeddedConsumer(log, "test")
    try:
        while batch := consumer.poll(5000, 0.0):
            for delivered in batch:
                record = decode(delivered.value)
                assert isinstance(record, Exchange | Accounting)
                yield record
    finally:
        consumer.close()


def books(folder: Path, log: Path | None = None) -> Books:
    """Read the whole log of a proxy that has ended: its stream, or `log`."""
    exchanges: Counter[tuple[str, str]] = Counter()
    last: Accounting | None = None
    seen: set[int] = set()
    for record in records(log or folder / "stream"):
        if isinstance(record, Exchange):
            assert record.sequence not in seen
            seen.add(record.sequence)
            exchanges[record.arm, record.transport] += 1
        elif last is None or record.sequence > last.sequence:
            last = record
    assert last is not None
    return replace(Books.counted(last), exchanges=exchanges)


@asynccontextmanager
async def running(
    tmp_path: Path,
    primary: str,
    arms: dict[str, dict],
    *,
    beside: str | None = None,
    watched: bool = False,
    **more,
):
    """(proxy with the arms, proxy without), in front of `primary`; the latter of `beside`, if given."""
    both = [
        proxy(tmp_path / "tested", primary, arms, watched=watched, **more),
        proxy(tmp_path / "plain", beside or primary, {}),
    ]
    started = await asyncio.gather(
        *(asyncio.to_thread(each.__enter__) for each in both), return_exceptions=True
    )
    began = [n for n, one in enumerate(started) if isinstance(one, Proxy)]
    try:
        for one in started:
            if isinstance(one, BaseException):
                raise one
        yield started
    finally:
        ends = (asyncio.to_thread(both[n].__exit__, None, None, None) for n in began)
        await asyncio.gather(*ends)
