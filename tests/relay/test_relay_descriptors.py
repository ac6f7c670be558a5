"""Out of file descriptors: said to the client, in the log and in /metrics, and requests go on."""

from __future__ import annotations

import http.server
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import ExitStack, contextmanager

import yaml

LIMIT = 120


class Engine(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def primary():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Engine) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


@contextmanager
def proxy(tmp_path, engine: int, port: int, health: int):
    tree = {
        "experiment": "x",
        "capture": "measures",
        "listen": f"127.0.0.1:{port}",
        "admin": {"health": f"127.0.0.1:{health}"},
        "state": str(tmp_path / "state"),
        "primary": {"url": f"http://127.0.0.1:{engine}"},
        "stream": {"embedded": str(tmp_path / "stream")},
        "store": {"embedded": str(tmp_path / "store")},
    }
    file, out = tmp_path / "shadow.yaml", tmp_path / "log"
    file.write_text(yaml.safe_dump(tree))
    run = f'ulimit -n {LIMIT}; exec "$@"'
    argv = ["sh", "-c", run, "sh", sys.executable, "-m", "shadow", "proxy", "-c", str(file)]
    with out.open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log)
    try:
        end = time.monotonic() + 20
        while f"listening on 127.0.0.1:{port}; primary http" not in out.read_text():
            assert process.poll() is None, out.read_text()
            assert time.monotonic() < end
            time.sleep(0.05)
        yield out
    finally:
        process.kill()
        process.wait()


def get(connection: socket.socket) -> bytes:
    connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    return connection.recv(4096)


def test_a_connection_too_many_is_told_so_and_those_that_stand_are_served(tmp_path):
    """150 idle connections under a limit of 120: the last ones get 503, an earlier one is served by
    the primary all the same, one line says the limit and the way out, and a counter how many."""
    port, health = free_port(), free_port()
    with primary() as engine, proxy(tmp_path, engine, port, health) as log, ExitStack() as stack:
        place = ("127.0.0.1", port)
        heard = [
            stack.enter_context(socket.create_connection(place, timeout=5)) for _ in range(150)
        ]
        assert get(heard[0]).startswith(b"HTTP/1.1 200 ")
        away = [said for one in heard[1:] if (said := _first_bytes(one))]
        assert len(away) >= 10
        assert all(said.startswith(b"HTTP/1.1 503 ") for said in away)
        assert all(b"too many connections are open here" in said for said in away)
        with urllib.request.urlopen(f"http://127.0.0.1:{health}/metrics", timeout=5) as answer:
            figures = answer.read().decode()
        (count,) = re.findall(r"^shadow_relay_no_descriptor_total (\S+)", figures, re.MULTILINE)
        assert float(count) == len(away)
        said = [line for line in log.read_text().splitlines() if "no file descriptors left" in line]
        assert len(said) == 1
        assert f"limit={LIMIT}" in re.sub(r"\x1b\[[0-9;]*m", "", said[0])
        assert "ulimit -n" in said[0]


def _first_bytes(connection: socket.socket) -> bytes:
    connection.settimeout(0.05)
    try:
        return connection.recv(4096)
    except (TimeoutError, ConnectionResetError):
        return b""
