"""`shadow proxy` as a process: what it starts, how it ends, and what a killed one leaves behind."""

from __future__ import annotations

import errno
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from shadow.config import Config, ConfigError
from shadow.exchange import Exchange, decode, encode
from shadow.proxy import _ledger, _Stream, run
from shadow.publish.accounting import Ledger
from shadow.stream import Message
from shadow.stream.embedded import EmbeddedConsumer, EmbeddedProducer

ANSWER = b'{"object":"chat.completion","choices":[{"message":{"content":"hi"}}]}'


class Engine(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, *_):
        pass


@pytest.fixture
def engine():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    server.handle_error = lambda *_: None  # a killed proxy resets its connections
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def tree(tmp_path, engine) -> dict:
    return {
        "experiment": "llama",
        "listen": f"127.0.0.1:{free_port()}",
        "capture": "full",
        "primary": {"url": engine},
        "arms": {"fp8": {"role": "candidate", "url": engine, "sample": 1}},
        "stream": {"embedded": str(tmp_path / "stream")},
        "store": {"embedded": str(tmp_path / "store")},
        "state": str(tmp_path / "state"),
        "admin": {"health": f"127.0.0.1:{free_port()}"},
        "isolation": "off",
    }


def get(address: str, path: str) -> tuple[int, bytes]:
    with closing(http.client.HTTPConnection(address, timeout=10)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()


def post(address: str) -> bytes:
    with closing(http.client.HTTPConnection(address, timeout=10)) as connection:
        connection.request("POST", "/v1/chat/completions", b'{"model":"m"}')
        return connection.getresponse().read()


@contextmanager
def worker(tree, tmp_path):
    """The command in a process of its own, ready."""
    path = tmp_path / "shadow.json"
    path.write_text(json.dumps(tree))
    process = subprocess.Popen([sys.executable, "-m", "shadow", "proxy", "-c", str(path)])
    try:
        deadline = time.monotonic() + 30
        while not ready(tree["admin"]["health"]):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()


def until_captured(tree, count: int) -> None:
    """Until both arms' exchanges are on the stream, as the health port says."""
    wanted = {
        b'shadow_captured_total{arm="%s"} %d.0' % (arm, count) for arm in (b"primary", b"fp8")
    }
    deadline = time.monotonic() + 20
    while not wanted <= set(get(tree["admin"]["health"], "/metrics")[1].split(b"\n")):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ready(address: str) -> bool:
    try:
        return get(address, "/readyz")[0] == 200
    except OSError:
        return False


def read_stream(tree) -> list:
    with closing(EmbeddedConsumer(Path(tree["stream"]["embedded"]))) as consumer:
        found = []
        while more := consumer.poll(1000, 0.0):
            found += more
    return [decode(record.value) for record in found]


def counts(record) -> dict:
    return {(c.arm, c.counter): c.value for c in record.counts if c.value}


def test_a_life_and_the_next_after_a_kill(tree, tmp_path):
    """A request passes, both answers reach the stream, the health port counts them. Killed -9, the
    next process says the dead one's last counts before its own; SIGTERM ends that one with 0, its
    final record as the last word, and nothing left in the state's folder but the lock."""
    with worker(tree, tmp_path) as process:
        assert [post(tree["listen"]) for _ in range(3)] == [ANSWER] * 3
        until_captured(tree, 3)
        process.kill()
    with worker(tree, tmp_path) as process:
        assert post(tree["listen"]) == ANSWER
        until_captured(tree, 1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0

    records = read_stream(tree)
    first = records[0].boot_id
    dead = next(r for r in records if r.boot_id == first and getattr(r, "final", False))
    assert counts(dead) == {
        (arm, counter): 3
        for arm in ("primary", "fp8")
        for counter in ("eligible", "sampled", "captured", "reached")
    }
    following = records[records.index(dead) + 1 :]
    assert {r.boot_id for r in following}.isdisjoint({first})
    last = following[-1]
    assert last.final
    assert counts(last)["fp8", "captured"] == 1
    exchanges = [(r.boot_id == first, r.arm) for r in records if isinstance(r, Exchange)]
    assert sorted(exchanges) == sorted(
        [(True, "primary"), (True, "fp8")] * 3 + [(False, "primary"), (False, "fp8")]
    )
    assert [file.name for file in Path(tree["state"]).iterdir()] == ["0.lock"]


@contextmanager
def silent():
    """An engine that never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("drain", "signals", "status", "cut"), [("60s", 2, 130, 1), ("1500ms", 1, 0, 1)]
)
def test_a_drain_says_what_it_waits_for_and_what_it_cut(
    tree, tmp_path, capfd, drain, signals, status, cut
):
    """Begin and end are lines of the log; a second signal that cuts a stream is no 0, the drain's own
    time is."""
    with silent() as engine:
        tree |= {"primary": {"url": engine}, "arms": {}, "drain": drain}
        open_ = b"shadow_relay_open_streams 1.0"
        host, _, port = tree["listen"].rpartition(":")
        with worker(tree, tmp_path) as process, closing(socket.socket()) as client:
            client.connect((host, int(port)))
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            while open_ not in get(tree["admin"]["health"], "/metrics")[1].split(b"\n"):
                time.sleep(0.02)
            for n in range(signals):
                process.send_signal(signal.SIGTERM)
                time.sleep(0.5 * (n + 1 < signals))
            assert process.wait(30) == status
    said = capfd.readouterr().out
    assert "draining" in said
    assert "open_streams=1" in said
    assert f"streams_cut={cut}" in said


@contextmanager
def taken(host: str, port: int):
    """Somebody listens there: we, or whoever was quicker."""
    try:
        with closing(socket.create_server((host, port))):
            yield
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        yield


@pytest.fixture
def same_switch_interval():
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


def test_what_is_taken_is_one_line_before_anything_is_served(tree, tmp_path, same_switch_interval):
    """The health port, the worker's place, the port to listen on: each by its key's name."""
    config = Config.model_validate(tree)
    for key, port in (("admin.health", config.admin.health), ("listen", config.listen)):
        with taken(port.host, port.port), pytest.raises(ConfigError) as refused:
            run(config, "0")
        way = "Address already in use; stop what listens there, or choose another port"
        assert str(refused.value) == f"{key}: {port}: {way}"
    ledger, _ = Ledger.open(config.state, "0", "llama", "c0ffee")
    with pytest.raises(ConfigError, match=r"^state: .*the worker's place 0 already"):
        run(config, "0")
    ledger.close(published=True)


def test_the_health_port_of_the_nth_worker_is_n_above(tree, same_switch_interval):
    """Workers share the port that clients use, not the one that tells them apart."""
    config = Config.model_validate(tree)
    health = config.admin.health
    with taken(health.host, health.port + 3), pytest.raises(ConfigError) as refused:
        run(config, "3")
    assert str(refused.value).startswith(f"admin.health: {health.host}:{health.port + 3}: ")


def test_a_second_proxy_on_one_stream_is_refused(tree, tmp_path):
    """Another state folder and other ports, the same partition: nothing could be stored; one line."""
    folder = tmp_path / "stream"
    folder.mkdir()
    with closing(EmbeddedProducer(folder, "0")), pytest.raises(ConfigError, match="partition 0"):
        run(Config.model_validate(tree), "0")


def test_without_room_for_counters_production_is_served(tree, tmp_path, monkeypatch):
    """A full disk at a restart: counters live in memory, the proxy starts."""
    monkeypatch.setattr("shadow.proxy.IN_MEMORY", tmp_path / "memory")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    config = Config.model_validate(tree)
    original = os.posix_fallocate
    monkeypatch.setattr(
        os,
        "posix_fallocate",
        lambda *a: full() if not calls.append(a) and len(calls) == 1 else original(*a),
    )
    calls: list = []
    ledger, _ = _ledger(config, "0")
    ledger.close(published=True)
    assert len(calls) == 2
    assert (tmp_path / "memory" / "shadow-llama").is_dir()


def test_what_waited_on_disk_and_never_fits_the_stream_is_a_drop_of_this_boot(tree, tmp_path):
    """Its arm is counted and its sequence; a former boot's is that boot's loss, junk is nobody's."""
    ledger, _ = Ledger.open(tmp_path / "state", "0", "llama", "c")
    stream = _Stream(Config.model_validate(tree), "0", ledger)
    facts = {
        "experiment": "llama", "config_hash": "c", "pair_id": "p", "arm": "fp8", "role": "candidate",
        "worker": "0", "sequence": 1, "arrived_at": 1, "started_at": 1, "method": "POST", "path": "/",
        "transport": "complete",
    }  # fmt: skip
    for boot in (ledger.boot_id, "before"):
        stream._refused(Message(b"p", encode(Exchange(**facts, boot_id=boot))))
    stream._refused(Message(b"p", b"junk"))
    assert ledger.snapshot(1).dropped_sequences == 1
    assert ledger.values()["fp8", "dropped", "record_too_large"] == 1
    ledger.close(published=True)
