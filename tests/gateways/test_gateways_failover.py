"""A dead proxy behind a real gateway: at most the streams in flight are lost, nobody waits."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml
from gateways.gateway import await_port, envoy, nginx
from relay.raw import Connection, upstream

from bench.peers import free_ports

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b'f\r\ndata: {"n":1}\n\n\r\n'
REQUEST = (
    b'POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 13\r\n\r\n{"model":"m"}'
)
CLIENTS = 20
FRONTS = {"envoy": envoy, "nginx": nginx}


async def engine(connection: Connection) -> None:
    """Ten events, 20 ms apart."""
    while True:
        await connection.request()
        await connection.write(HEAD)
        for _ in range(10):
            await asyncio.sleep(0.02)
            await connection.write(EVENT)
        await connection.write(b"0\r\n\r\n")


@dataclass
class Seen:
    """One request as its client saw it: when it began, when its head came, whether it was whole."""

    begun: float
    head: float = 0.0
    ended: float = 0.0
    whole: bool = False
    why: str = ""


async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: Seen) -> None:
    writer.write(REQUEST)
    head = await reader.readuntil(b"\r\n\r\n")
    seen.head = time.monotonic()
    if not head.startswith(b"HTTP/1.1 200 "):
        raise ConnectionError(head.partition(b"\r\n")[0].decode())
    body = await reader.readuntil(b"\r\n0\r\n\r\n")
    assert body.count(b'"n":1') == 10  # Envoy may put several into one chunk
    seen.whole = True


async def user(port: int, log: list[Seen], stop: asyncio.Event) -> None:
    """Streams one answer after the other, on one connection while that lasts."""
    writer = None
    while not stop.is_set():
        if writer is None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        seen = Seen(time.monotonic())
        log.append(seen)
        try:
            await asyncio.wait_for(stream(reader, writer, seen), 10)
        except (OSError, EOFError, TimeoutError) as error:
            seen.why = f"{type(error).__name__}: {error}"
            writer.transport.abort()
            writer = None
        seen.ended = time.monotonic()
    if writer is not None:
        writer.transport.abort()


def start_proxy(folder: Path, listen: int, health: int, engine_port: int) -> subprocess.Popen:
    url = f"http://127.0.0.1:{engine_port}"
    config = {
        "experiment": "failover",
        "listen": f"127.0.0.1:{listen}",
        "capture": "text",
        "primary": {"url": url},
        "arms": {"fp8": {"role": "candidate", "url": url, "sample": 1.0}},
        "stream": {"embedded": str(folder / "stream")},
        "store": {"embedded": str(folder / "store")},
        "state": str(folder / "state"),
        "admin": {"health": f"127.0.0.1:{health}"},
    }
    path, log = folder / "shadow.yaml", folder / "shadow.log"
    path.write_text(yaml.safe_dump(config))
    with log.open("ab") as said:
        command = [sys.executable, "-m", "shadow", "proxy", "-c", str(path)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    await_port(process, listen, log)
    return process


def relayed(health: int) -> int:
    """How many requests the proxy has had, by its metrics."""
    with suppress(OSError), urlopen(f"http://127.0.0.1:{health}/metrics", timeout=2) as answer:
        found = re.search(
            r"^shadow_relay_requests_total (\d+)", answer.read().decode(), re.MULTILINE
        )
        return int(found[1]) if found else 0
    return 0


async def until(condition, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < deadline, "it never became true"
        await asyncio.sleep(0.1)


async def ended_under_load(
    folder: Path, how: signal.Signals, gateway_is: str = "envoy"
) -> tuple[list[Seen], float, float]:
    """(all requests, when the proxy was signalled, when it was gone)."""
    gateway, listen, health = free_ports(3)
    log: list[Seen] = []
    stop = asyncio.Event()
    async with upstream(engine) as primary:
        process = await asyncio.to_thread(start_proxy, folder, listen, health, primary.port)
        ports = {10000: gateway, 8080: listen, 8000: primary.port}
        if gateway_is == "envoy":  # it asks for the proxy's health
            ports[9091] = health
        front = FRONTS[gateway_is](folder, "inline", ports)
        try:
            await asyncio.to_thread(front.__enter__)
            await until(lambda: _answers(gateway), 10)
            users = [asyncio.ensure_future(user(gateway, log, stop)) for _ in range(CLIENTS)]
            await until(lambda: relayed(health) > 3 * CLIENTS, 20)
            process.send_signal(how)
            killed = time.monotonic()
            await asyncio.to_thread(process.wait)
            gone = time.monotonic()
            await asyncio.sleep(3)
            process = await asyncio.to_thread(start_proxy, folder, listen, health, primary.port)
            await until(lambda: relayed(health) > CLIENTS, 20)
            stop.set()
            await asyncio.gather(*users)
        finally:
            await asyncio.to_thread(front.__exit__, None, None, None)
            process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(process.wait, 30)
    return log, killed, gone


def _answers(port: int) -> bool:
    with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/", timeout=2):
        return True
    return False


def only_streams_in_flight_are_lost(log: list[Seen], killed: float, gone: float) -> None:
    """And every later request is answered whole, none after a time-out."""
    lost = [seen for seen in log if not seen.whole]
    open_then = [s for s in log if s.begun <= gone + 0.05 and (not s.ended or s.ended >= killed)]
    later = [seen for seen in log if seen.begun > gone + 0.05]
    slowest = max(seen.head - seen.begun for seen in later)
    told = (
        f"{len(log)} requests, {len(open_then)} open at the kill, {len(lost)} lost "
        f"({sorted({seen.why for seen in lost})}); {len(later)} after it, slowest head "
        f"{slowest * 1000:.0f} ms; gone after {(gone - killed) * 1000:.0f} ms"
    )
    if os.environ.get("SHADOW_TELL"):
        sys.stderr.write(f"{told}\n")
    assert lost, told
    assert sum(seen.begun <= killed for seen in lost) <= CLIENTS, told
    assert all(seen in open_then for seen in lost), told
    assert len(later) > 3 * CLIENTS, told
    assert slowest < 1.0, told


@pytest.mark.gateway
@pytest.mark.usefixtures("with_envoy")
def test_kill_9_costs_at_most_the_streams_in_flight(tmp_path):
    """Twenty clients stream without a pause; the proxy is killed with -9 and started again 3 s later.

    Lost are only streams that were open then: at the kill, or given to it in the milliseconds in
    which it died. Every later request is answered whole by the engine itself, none waits for a
    time-out; and the traffic comes back to the proxy. Measured on two shared cores, three runs: of
    600 to 733 requests 20, 20 and 32 lost (12 of them while it died, which took 7 to 44 ms); the
    slowest head of the 520 to 653 later ones after 26 to 38 ms.
    """
    only_streams_in_flight_are_lost(*asyncio.run(ended_under_load(tmp_path, signal.SIGKILL)))


@pytest.mark.gateway
@pytest.mark.usefixtures("with_nginx")
def test_kill_9_behind_nginx(tmp_path):
    """The same behind nginx, which knows of the dead proxy by its refused connections alone: what it
    had given to it is cut or ends in 502, every later request is answered by the `backup`. Measured on
    two shared cores with nginx 1.22, three runs: of 580 to 680 requests the 20 in flight were lost; the
    slowest head of the 500 to 600 later ones after 11 to 25 ms.
    """
    lost = asyncio.run(ended_under_load(tmp_path, signal.SIGKILL, "nginx"))
    only_streams_in_flight_are_lost(*lost)


@pytest.mark.gateway
@pytest.mark.usefixtures("with_envoy")
def test_a_restart_costs_nothing(tmp_path):
    """The same with SIGTERM: what runs ends whole, what comes meanwhile is answered by the proxy, which
    says close, or by the engine; not one request is lost.
    """
    log, told, gone = asyncio.run(ended_under_load(tmp_path, signal.SIGTERM))
    assert not [seen for seen in log if not seen.whole]
    assert any(told < seen.begun < gone for seen in log)
    assert sum(seen.begun > gone for seen in log) > 3 * CLIENTS
