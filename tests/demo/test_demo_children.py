"""Processes end with the demo, however it ends; one that ends by itself is named with its words."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from shadow.demo.children import children, last_line, until
from shadow.demo.failure import DemoFailed

SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)",
]


def up(child):
    return lambda: "up" in child.log.read_text()


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("ending", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_all_end_with_the_block(tmp_path, ending):
    """An error, Ctrl-C or SIGTERM: none of them leaves a process."""
    started = []

    def demo():
        with children(tmp_path) as processes:
            started.extend(processes.start(name, SLEEP) for name in ("a", "b"))
            raise ending

    with pytest.raises(ending):
        demo()
    assert len(started) == 2
    assert all(gone(child.process.pid) for child in started)


def test_the_last_started_ends_first(tmp_path):
    """The product before its engines, so that nothing is cut that it still waits for."""
    trap = (
        "import signal, sys, time\n"
        "def end(*_):\n    print('ended', time.monotonic_ns(), flush=True); sys.exit()\n"
        "signal.signal(15, end); print('up', flush=True); time.sleep(60)"
    )
    with children(tmp_path) as processes:
        for name in ("engine", "product"):
            until(up(child := processes.start(name, [sys.executable, "-c", trap])), child, 10)
    ended = {n: int((tmp_path / f"{n}.log").read_text().split()[-1]) for n in ("engine", "product")}
    assert ended["product"] < ended["engine"]


def test_one_that_will_not_end_is_killed_and_named(tmp_path, monkeypatch):
    """Patience is bounded."""
    monkeypatch.setattr("shadow.demo.children.AGAIN_S", 0.1)
    with children(tmp_path) as processes:
        child = processes.start("stubborn", STUBBORN)
        until(up(child), child, 10)
        assert processes.stop(within_s=0.1) == ["stubborn"]
    assert gone(child.process.pid)


def test_ending_by_itself_is_a_failure_with_its_last_line(tmp_path):
    """Not a wait until the bound."""
    words = [sys.executable, "-c", "import sys; print('first'); sys.exit('port 80 is taken\\n')"]
    with children(tmp_path) as processes:
        child = processes.start("engine", words)
        with pytest.raises(DemoFailed, match="engine ended by itself: port 80 is taken"):
            until(lambda: False, child, 10)


def test_not_ready_in_time(tmp_path):
    """A bound, and the name of what was waited for."""
    with children(tmp_path) as processes:
        child = processes.start("engine", SLEEP)
        with pytest.raises(DemoFailed, match=r"engine was not ready within 0\.1 s"):
            until(lambda: False, child, 0.1)


def test_last_line_of_nothing(tmp_path):
    """An empty log is said to be one."""
    (tmp_path / "log").write_text("\n \n")
    assert last_line(tmp_path / "log") == "it wrote nothing"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_client_sends(tmp_path, number):
    """The whole of it: a demo's process is told to end in the middle of sending; its child goes too."""
    script = f"""
import sys, time
from pathlib import Path
from rich.console import Console
from shadow.demo import stage
from shadow.demo.children import children
def show():
    with children(Path({str(tmp_path)!r})) as processes:
        child = processes.start("a", {SLEEP!r})
        print(child.process.pid, flush=True)
        stage.send(Console(quiet=True), "http://127.0.0.1:9/", [b"x"], [30.0], 0)
sys.exit(stage.guarded(show, Path({str(tmp_path)!r})))
"""
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a shell that runs the tests in the background lets SIGINT be ignored below it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 no thread runs yet
    ) as demo:
        guard = threading.Timer(20, demo.kill)
        guard.start()
        child = int(demo.stdout.readline())
        time.sleep(0.3)  # into the loop; earlier would do as well
        demo.send_signal(number)
        assert demo.wait() == {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
        guard.cancel()
    assert gone(child)
    assert Path(tmp_path / "a.log").exists()
