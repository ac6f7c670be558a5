"""The supervisor: what dies is started again, the order of the drain holds, a mistake stops all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from shadow.supervise import Service, backoff, supervise


def script(tmp_path: Path, name: str, body: str) -> list[str]:
    path = tmp_path / f"{name}.py"
    path.write_text(
        f"import os, signal, sys, time\nLOG = {str(tmp_path / 'log')!r}\n"
        f"def log(t): open(LOG, 'a').write({name!r} + ' ' + t + '\\n')\n{body}"
    )
    return [sys.executable, "-S", str(path)]


LONG = """
def stop(*_):
    log("stop"); sys.exit(0)
signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, lambda *_: log("interrupted"))
log("start %d" % os.getpid())
while True: time.sleep(60)
"""


def lines(tmp_path: Path) -> list[str]:
    try:
        return (tmp_path / "log").read_text().splitlines()
    except FileNotFoundError:
        return []


def until(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.01)


def test_backoff_grows_to_a_bound():
    """A service that keeps dying is tried ever more seldom, never given up."""
    assert [backoff(n) for n in range(4)] == [0.25, 0.5, 1.0, 2.0]
    assert backoff(50) == 30.0


def test_a_killed_service_comes_back_and_the_drain_has_an_order(tmp_path):
    """kill -9 of one child restarts that child alone; SIGINT to the group drains one after the other."""
    argv = [script(tmp_path, name, LONG) for name in ("first", "second")]
    program = (
        "import sys, json; from shadow.supervise import *;"
        f"sys.exit(supervise([Service(n, a, 5) for n, a in zip(('first', 'second'), {argv!r})]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    try:
        until(lambda: len(lines(tmp_path)) == 2)
        second = next(line for line in lines(tmp_path) if line.startswith("second start"))
        os.kill(int(second.split()[2]), signal.SIGKILL)
        until(lambda: len(lines(tmp_path)) == 3)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert [line.split()[:2] for line in lines(tmp_path)[-2:]] == [
        ["first", "stop"],
        ["second", "stop"],
    ]
    assert sum("first start" in line for line in lines(tmp_path)) == 1
    assert "second ended (SIGKILL)" in errors
    assert not any("interrupted" in line for line in lines(tmp_path))


def test_a_hangup_reaches_those_that_hear_it(tmp_path):
    """SIGHUP is passed on to the proxies alone; nobody ends by it, the supervisor neither."""
    hears = LONG.replace(
        'log("start', "signal.signal(signal.SIGHUP, lambda *_: log('hangup'))\nlog(\"start"
    )
    services = [
        Service("proxy", script(tmp_path, "proxy", hears), 5, hears_hangup=True),
        Service("collector", script(tmp_path, "collector", LONG), 5),
    ]

    def hang_up():
        until(lambda: len(lines(tmp_path)) == 2)
        os.kill(os.getpid(), signal.SIGHUP)
        until(lambda: "proxy hangup" in lines(tmp_path))
        os.kill(os.getpid(), signal.SIGTERM)

    killer = threading.Thread(target=hang_up)
    killer.start()
    assert run_here(services, lambda _: None) == 0
    killer.join()
    assert sorted(line.split()[1] for line in lines(tmp_path)) == [
        "hangup",
        "start",
        "start",
        "stop",
        "stop",
    ]


def run_here(services, say):
    return supervise(services, say=say, tick_s=0.01)


def test_a_refused_configuration_stops_everything(tmp_path):
    """Exit 2 would be exit 2 again: no restart, the others are drained, the status is 2."""
    said = []
    services = [
        Service("proxy", script(tmp_path, "proxy", LONG), 5),
        Service("collector", script(tmp_path, "collector", "sys.exit(2)"), 5),
    ]
    assert run_here(services, said.append) == 2
    assert any("collector refused" in line for line in said)


def test_a_later_refusal_stops_nothing(tmp_path):
    """A mistake that was made in a file meanwhile: the service is tried again, the proxy goes on."""
    once = (
        "import pathlib\np = pathlib.Path(LOG + '.once')\n"
        "if p.exists():\n    log('refused'); sys.exit(2)\n"
        "p.touch(); log('started'); sys.exit(1)\n"
    )
    services = [
        Service("proxy", script(tmp_path, "proxy", LONG), 5),
        Service("analysis", script(tmp_path, "analysis", once), 5),
    ]

    def end():
        until(lambda: lines(tmp_path).count("analysis refused") >= 2)
        os.kill(os.getpid(), signal.SIGTERM)

    killer = threading.Thread(target=end)
    killer.start()
    assert run_here(services, lambda _: None) == 0
    killer.join()
    assert sum("proxy start" in line for line in lines(tmp_path)) == 1


def test_what_the_system_refuses_to_start_takes_nobody_with_it(tmp_path):
    """No interpreter in its place (an upgrade), no process left: it is said and tried again, and the
    proxy goes on serving."""
    gone = tmp_path / "gone"
    said = []

    def stop():
        until(lambda: len(said) >= 2)
        gone.write_text(f"#!/bin/sh\nexec {' '.join(script(tmp_path, 'collector', LONG))}\n")
        gone.chmod(0o755)
        until(lambda: any(line.startswith("collector start") for line in lines(tmp_path)))
        os.kill(os.getpid(), signal.SIGTERM)

    killer = threading.Thread(target=stop)
    services = [
        Service("collector", [str(gone)], 5),
        Service("proxy", script(tmp_path, "proxy", LONG), 5),
    ]
    killer.start()
    assert run_here(services, said.append) == 0
    killer.join()
    assert said[0] == "collector cannot be started (No such file or directory); again in 0.25 s"
    assert sum(line.startswith("proxy start") for line in lines(tmp_path)) == 1


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once_and_says_that_it_cut(tmp_path, signum):
    """A service that does not end on SIGTERM is cut by the second signal, not by its grace; the
    status is no 0. What the drain waits for is said at the first."""
    stubborn = "signal.signal(signal.SIGTERM, lambda *_: log('ignored'))\nlog('start')\nwhile True: time.sleep(60)\n"
    service = Service("stubborn", script(tmp_path, "stubborn", stubborn), 60)

    def twice():
        until(lambda: "stubborn start" in lines(tmp_path))
        os.kill(os.getpid(), signum)
        until(lambda: "stubborn ignored" in lines(tmp_path))
        os.kill(os.getpid(), signum)

    killer = threading.Thread(target=twice)
    killer.start()
    said = []
    began = time.monotonic()
    status = supervise([service], say=said.append, tick_s=0.01, draining=lambda: "draining: 1 open")
    killer.join()
    assert status == 128 + signum
    assert time.monotonic() - began < 20
    assert said == ["draining: 1 open", "stubborn was cut"]


def test_who_outlasts_its_time_was_cut_too(tmp_path):
    """Nobody pressed again, and still something was cut: no 0."""
    stubborn = "signal.signal(signal.SIGTERM, lambda *_: log('ignored'))\nlog('start')\nwhile True: time.sleep(60)\n"
    service = Service("stubborn", script(tmp_path, "stubborn", stubborn), 0.2)

    def once():
        until(lambda: "stubborn start" in lines(tmp_path))
        os.kill(os.getpid(), signal.SIGTERM)

    killer = threading.Thread(target=once)
    killer.start()
    said = []
    assert run_here([service], said.append) == 143
    killer.join()
    assert said == ["draining", "stubborn was cut"]
