"""Before a supervisor starts anything: its place is its own, and the refusal is a way out."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml

from shadow.cli import supervised
from shadow.cli.beginning import alone
from shadow.cli.commands import run
from shadow.config import Config, ConfigError
from shadow.publish.accounting import Ledger

HOLD = (
    "import sys; from pathlib import Path; from shadow.locks import lock\n"
    "lock(Path(sys.argv[1]), 'up'); print('held', flush=True); sys.stdin.read()"
)


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def made(tmp_path: Path, **changes) -> Path:
    ports = free_ports(3)
    tree = {
        "experiment": "e",
        "capture": "text",
        "listen": f"127.0.0.1:{ports[0]}",
        "admin": {"health": f"127.0.0.1:{ports[1]}"},
        "primary": {"url": "http://127.0.0.1:1"},
        "arms": {"fp8": {"role": "candidate", "url": "http://127.0.0.1:2", "sample": 0.25}},
        "stream": {"embedded": str(tmp_path / "stream")},
        "store": {"embedded": str(tmp_path / "store"), "listen": f"127.0.0.1:{ports[2]}"},
        "state": str(tmp_path / "state"),
    }
    path = tmp_path / "shadow.yaml"
    path.write_text(yaml.safe_dump(tree | changes))
    return path


@contextmanager
def another_up(state: Path):
    """A process that has the supervisor's place, and ends with the block."""
    argv = [sys.executable, "-c", HOLD, str(state / "up.lock")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        try:
            yield holder.pid
        finally:
            holder.stdin.close()


@pytest.fixture
def started(monkeypatch):
    """The names of services that would have been started."""
    names: list[str] = []

    def instead(services, **_more) -> int:
        names.extend(service.name for service in services)
        return 0

    monkeypatch.setattr(supervised, "supervise", instead)
    before = os.umask(0o077)
    yield names
    os.umask(before)


def test_a_second_up_names_the_supervisor(tmp_path, started, capsys):
    """Not the proxy worker, which would be started again: one line, 2, and nothing was started."""
    path = made(tmp_path)
    with another_up(tmp_path / "state") as pid:
        assert run(["up", "-c", str(path)]) == 2
    said = f"shadow: up (process {pid}) runs here already (state: {tmp_path}/state)"
    assert capsys.readouterr().err == f"{said}; kill {pid} drains it\n"
    assert started == []
    assert run(["up", "-c", str(path)]) == 0
    assert started == ["proxy 0", "analysis", "collector"]


def test_a_worker_that_outlived_its_supervisor_is_named(tmp_path, started, capsys):
    """Nobody restarts that one: its own process is the one to end, and it is said in one line."""
    path = made(tmp_path)
    ledger, _ = Ledger.open(tmp_path / "state", "0", "e", "c0ffee")
    try:
        assert run(["up", "-c", str(path)]) == 2
    finally:
        ledger.close(published=True)
    said = capsys.readouterr().err
    assert f"process {os.getpid()} has the worker's place 0 already" in said
    assert said.count("\n") == 1
    assert started == []


def test_a_folder_that_cannot_be_used_is_left_to_the_proxy(tmp_path):
    """It may serve with its counters in memory: no lock is no reason not to start."""
    (tmp_path / "state").write_text("no folder")
    config = Config.model_validate(yaml.safe_load(made(tmp_path).read_text()))
    with alone(config, "up"):
        pass


def test_the_place_is_free_again_after_a_refusal(tmp_path):
    """Whatever ends the supervisor ends its claim, and a refusal takes none."""
    config = Config.model_validate(yaml.safe_load(made(tmp_path).read_text()))
    told = f"kill {os.getpid()} drains it"
    with alone(config, "up"), pytest.raises(ConfigError, match=told), alone(config, "up"):
        pass
    with alone(config, "up"):
        pass


@pytest.mark.parametrize(
    "key", ["listen", "admin.health", "admin.collector", "admin.analysis", "store.listen"]
)
def test_a_taken_port_starts_nothing(tmp_path, started, capsys, key):
    """Whichever process would listen there: at once, in one line with the way out, and no gateway
    has seen a proxy that then ends."""
    health, collector, analysis = (f"127.0.0.1:{port}" for port in free_ports(3))
    admin = {"health": health, "collector": collector, "analysis": analysis}
    path = made(tmp_path, admin=admin)
    place = yaml.safe_load(path.read_text())
    for word in key.split("."):
        place = place[word]
    with socket.create_server(("127.0.0.1", int(place.rpartition(":")[2]))):
        assert run(["up", "-c", str(path)]) == 2
    way = "Address already in use; stop what listens there, or choose another port"
    assert capsys.readouterr().err == f"shadow: {key}: {place}: {way}\n"
    assert started == []
    assert run(["up", "-c", str(path)]) == 0


def test_the_health_port_of_every_worker_is_looked_at(tmp_path, started, capsys):
    """The n-th is n above the first."""
    (port,) = free_ports(1)
    path = made(tmp_path, workers=3, admin={"health": f"127.0.0.1:{port - 2}"})
    with socket.create_server(("127.0.0.1", port)):
        assert run(["up", "-c", str(path)]) == 2
    assert f"admin.health: 127.0.0.1:{port}: Address already" in capsys.readouterr().err
    assert started == []
