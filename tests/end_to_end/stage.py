"""The real processes on loopback: simulated engines, `shadow up`, clients that check every byte."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

SHADOW = [sys.executable, "-m", "shadow"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(condition, seconds: float = 30.0, what: str = "it"):
    end = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < end, f"{what} did not come to pass in {seconds:g} s"
        time.sleep(0.05)
    return result


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


@contextlib.contextmanager
def process(argv: list[str], log: Path, grace: float = 30.0) -> Iterator[subprocess.Popen]:
    """Run it in a session of its own; SIGTERM at the end, and its log when it would not go."""
    with log.open("ab") as out:
        child = subprocess.Popen(argv, stdout=out, stderr=out, start_new_session=True)
    try:
        yield child
    finally:
        if child.poll() is None:
            child.terminate()
        try:
            child.wait(grace)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise AssertionError(f"it did not end:\n{log.read_text()[-4000:]}") from None


@contextlib.contextmanager
def engine(tmp_path: Path, name: str, **options) -> Iterator[str]:
    """A simulated engine; its URL."""
    port = free_port()
    flags = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
    argv = [*SHADOW, "engine-sim", f"--port={port}", *flags]
    with process(argv, tmp_path / f"{name}.log"):
        url = f"http://127.0.0.1:{port}"
        until(lambda: answers(f"{url}/health"), what=f"engine {name}")
        yield url


@dataclass
class Stage:
    """One running `shadow up`."""

    config: Path
    port: int
    health: int
    store: int
    up: subprocess.Popen
    log: Path
    killed: list[str] = field(default_factory=list)

    def shadow(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command, *rest = arguments
        return subprocess.run(
            [*SHADOW, command, "-c", str(self.config), *rest],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def report(self) -> dict:
        done = self.shadow("report", "--format", "json")
        assert done.returncode in {0, 3}, done.stderr
        return json.loads(done.stdout) if done.stdout else {}

    def pid_of(self, service: str) -> int:
        """The process id of one child of `shadow up`, by its command line."""

        def look() -> int | None:
            for entry in Path("/proc").iterdir():
                with contextlib.suppress(OSError, ValueError):
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                    if service.encode() in words and parent == self.up.pid:
                        return int(entry.name)
            return None

        return until(look, what=f"a process {service}")

    def kill(self, service: str) -> None:
        os.kill(self.pid_of(service), signal.SIGKILL)
        self.killed.append(service)


@contextlib.contextmanager
def stage(
    tmp_path: Path, primary: str, arms: dict, ready: str = "/readyz", **changes
) -> Iterator[Stage]:
    """`shadow up` in front of `primary`, with everything in tmp_path; `ready` says when it is up."""
    admin = changes.pop("admin", {})
    ports = [free_port() for _ in range(3)]
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        yaml.safe_dump(
            {
                "blocks": {"by": "time", "every": "1s", "min_pairs": 20, "planned": 50},
                "min_span": "0s",
                "warm_up": {"pairs": 0},
            }
        )
    )
    tree = {
        "experiment": "stage",
        "listen": f"127.0.0.1:{ports[0]}",
        "capture": "full",
        "primary": {"url": primary},
        "arms": arms,
        "stream": {"embedded": str(tmp_path / "stream")},
        "store": {"embedded": str(tmp_path / "store"), "listen": f"127.0.0.1:{ports[2]}"},
        "state": str(tmp_path / "state"),
        "admin": {"health": f"127.0.0.1:{ports[1]}"} | admin,
        "policy": str(policy),
        "drain": "20s",
        "isolation": "off",  # every request is counted on
        "stop_at": {"on_verdict": "continue"},
    } | changes
    config = tmp_path / "shadow.yaml"
    config.write_text(yaml.safe_dump(tree))
    log = tmp_path / "up.log"
    with process([*SHADOW, "up", "-c", str(config)], log, grace=90) as child:
        running = Stage(config, *ports, child, log)
        until(lambda: answers(f"http://127.0.0.1:{ports[1]}{ready}"), 60, f"readiness; {log}")
        yield running


def chat(prompt: str, *, stream: bool = True, **more) -> bytes:
    messages = [{"role": "user", "content": prompt}]
    body = {"model": "sim", "messages": messages, "stream": stream, "max_tokens": 64} | more
    return json.dumps(body).encode()


async def ask(port: int, body: bytes, path: str = "/v1/chat/completions") -> bytes:
    """One POST on a connection of its own: the answer's raw bytes, checked to be whole."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    try:
        raw = await asyncio.wait_for(reader.read(-1), 60)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    assert raw.startswith(b"HTTP/1.1 200 "), raw[:200]
    if b"text/event-stream" in raw[:1000]:
        assert raw.endswith(b"0\r\n\r\n"), raw[-200:]
        assert b"data: [DONE]" in raw[-200:], raw[-200:]
    return raw


async def crowd(port: int, count: int, at_once: int, tag: str) -> list[bytes]:
    """`count` streamed chats, `at_once` at a time; every one must be whole."""
    slots = asyncio.Semaphore(at_once)

    async def one(number: int) -> bytes:
        async with slots:
            return await ask(port, chat(f"{tag} {number}"))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number)) for number in range(count)]
    return [task.result() for task in tasks]
