"""The watching threads outlive any fault of ours, say it once, and hear what they missed."""

from __future__ import annotations

import fcntl
import os
import stat
import threading
import time
from contextlib import contextmanager

import pytest
from structlog.testing import capture_logs

from shadow.control import readiness
from shadow.steering import looks, watcher
from shadow.steering import told_file as steering
from shadow.steering.followed import Followed
from shadow.steering.told import NotSteering, Told
from shadow.steering.told_file import read, tidied, write
from shadow.steering.watcher import Ears, Places, Watcher


def until(condition) -> None:
    """It becomes true within a few seconds."""
    over = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < over, "it never became true"
        time.sleep(0.002)


class Heard:
    """What the ears heard, by name; `well` is cleared while they fault."""

    def __init__(self) -> None:
        self.said: list[object] = []
        self.tried = 0
        self.well = threading.Event()
        self.faulty = ""

    def ear(self, name: str, what: object = None) -> None:
        if name == self.faulty and not self.well.is_set():
            self.tried += 1
            raise RuntimeError("unforeseen")
        self.said.append((name, what))

    def ears(self) -> Ears:
        return Ears(
            killed=lambda why: self.ear("killed", bool(why)),
            told=lambda told: self.ear("told", told.paused),
            config=lambda: self.ear("config"),
        )


@contextmanager
def watched(tmp_path, heard: Heard, **more):
    (tmp_path / "config").write_text("a")
    places = {
        "told": tmp_path / "told.json",
        "kill_switch": tmp_path / "kill",
        "config": tmp_path / "config",
    }
    one = Watcher(Places(**{**places, **more}), heard.ears())
    one.first_look()
    heard.said.clear()
    one.start()
    try:
        yield one
    finally:
        one.stop()


CHANGES = {
    "killed": lambda folder: (folder / "kill").write_text("on"),
    "told": lambda folder: write(folder / "told.json", Told(paused=True)),
    "config": lambda folder: (folder / "config").write_text("another"),
}


@pytest.mark.parametrize("faulty", CHANGES)
def test_a_fault_ends_no_watching(tmp_path, faulty, monkeypatch):
    """Counted and logged once, shown while it lasts; all else is heard meanwhile, and afterwards
    what stops mirroring is heard without having to be said again.
    """
    monkeypatch.setattr(watcher, "LOOK_S", 0.005)
    heard = Heard()
    with capture_logs() as logs, watched(tmp_path, heard) as one:
        heard.faulty = faulty
        assert (one.fault(), one.faults_total) == ("", 0)
        CHANGES[faulty](tmp_path)
        until(lambda: heard.tried > (faulty != "config"))
        until(one.fault)
        assert ": RuntimeError at " in one.fault()
        for name in CHANGES.keys() - {faulty}:
            CHANGES[name](tmp_path)
            until(lambda name=name: name in [said for said, _ in heard.said])
        assert one.fault()
        heard.well.set()
        if faulty == "config":  # the old one goes on until there is another
            one.reload()
        until(lambda: faulty in [said for said, _ in heard.said])
        until(lambda: not one.fault())
        assert one.faults_total == 1
    assert [line["log_level"] for line in logs] == ["error", "info"]


def test_a_kill_switch_that_is_not_looked_at_for_a_fault_stops(tmp_path, monkeypatch):
    """As a disk that hangs does, and the reason is the fault."""
    monkeypatch.setattr(watcher, "LOOK_S", 0.005)
    heard = Heard()
    with watched(tmp_path, heard) as one:
        monkeypatch.setattr(looks, "STUCK_S", 0.05)
        until(lambda: not one.stuck())

        def broken(_path):
            raise ValueError("unforeseen")

        monkeypatch.setattr(looks, "kill_reason", broken)
        until(lambda: "ValueError at " in one.stuck())
        monkeypatch.undo()
        until(lambda: not one.stuck() and not one.fault())


def test_time_in_which_the_process_was_stopped_is_no_hanging_disk(tmp_path, monkeypatch):
    """Neither the loop nor the looks ran; only what the loop saw go by without a look counts."""
    now = [100.0]
    monkeypatch.setattr(looks, "monotonic", lambda: now[0])
    switch = looks.KillSwitch(tmp_path / "kill", lambda _: None)
    switch.look()
    assert not switch.stuck("")
    now[0] += 3600.0
    for _ in range(3):
        assert not switch.stuck("")
        now[0] += 0.1
    switch.look()
    waited = 0
    while not switch.stuck(""):
        waited += 1
        now[0] += 0.1
    assert 49 <= waited <= 52  # five seconds, told ten times in each


def test_a_fault_in_following_ends_no_following(tmp_path, monkeypatch):
    """The control port is asked again, and its word comes through."""
    monkeypatch.setattr(watcher, "FOLLOW_S", 0.005)
    asked = []

    def ask(_followed):
        asked.append(True)
        if len(asked) < 3:
            raise RuntimeError("unforeseen")
        return Told(paused=True, by="ann", at_ns=len(asked))

    monkeypatch.setattr(looks, "ask", ask)
    heard = Heard()
    with watched(tmp_path, heard, followed=Followed("http://127.0.0.1:9")) as one:
        until(lambda: ("told", True) in heard.said)
        until(lambda: not one.fault())
        assert one.faults_total == 1
        until((tmp_path / "told.json").exists)


def test_what_is_followed_waits_for_no_other_writer(tmp_path, monkeypatch):
    """It is heard at once, and kept as soon as the other is done: the thread hangs on no lock."""
    monkeypatch.setattr(watcher, "FOLLOW_S", 0.005)
    asked = []

    def ask(_followed):
        asked.append(True)
        return Told(paused=True, by="ann", at_ns=1)

    monkeypatch.setattr(looks, "ask", ask)
    heard = Heard()
    followed = Followed("http://127.0.0.1:9")
    with (
        locked(tmp_path / "told.json") as let_go,
        watched(tmp_path, heard, followed=followed),
    ):
        until(lambda: len(asked) > 3)
        assert heard.said == [("told", True)]
        assert not (tmp_path / "told.json").exists()
        let_go()
        until((tmp_path / "told.json").exists)


def test_readiness_shows_the_fault():
    """After what keeps captures from getting out."""

    class WayOut:
        ready, last_error, queued_bytes, queue_bytes = True, None, 0, 100

    status, answer = readiness(
        WayOut(), listening=True, fault="the kill switch: ValueError at x.py:1 y"
    )
    assert status == 503
    assert answer["reason"].endswith("a fault of shadow: the kill switch: ValueError at x.py:1 y")
    assert readiness(WayOut(), listening=False, fault="x")[1]["reason"].startswith("the proxy")


# the file of what was said


@contextmanager
def locked(path):
    """Another process changes the file; what is yielded lets it be done."""
    descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield lambda: fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def test_a_word_is_on_the_disk_with_its_name(tmp_path, monkeypatch):
    """The file before it takes its name, the folder afterwards."""
    synced, fsync = [], os.fsync

    def seen(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            synced.append(("folder", (tmp_path / "told.json").exists()))
        else:
            synced.append(("file", (tmp_path / "told.json").exists()))
        fsync(descriptor)

    monkeypatch.setattr(steering.os, "fsync", seen)
    write(tmp_path / "told.json", Told(paused=True))
    assert synced == [("file", False), ("folder", True)]


def test_what_killed_processes_left_is_gone_after_a_start(tmp_path):
    """Unfinished files of this experiment, and nothing else; not while somebody writes one."""
    path = tmp_path / "told.json"
    write(path, Told(paused=True))
    left, others = tmp_path / ".told.json.4711", tmp_path / ".another.json.4711"
    left.touch()
    others.touch()
    with locked(path):
        tidied(path)
        assert left.exists()
    with watched(tmp_path, Heard()):
        assert not left.exists()
    assert others.exists()
    assert read(path).paused


@pytest.mark.parametrize("said", ['{"rates": {"fp8": %s}}', '{"at_ns": %s}', '{"at_ns": -%s}'])
def test_a_number_that_nobody_can_read_pauses(tmp_path, said):
    """As any damaged file does; a proxy that finds one at its start serves all the same."""
    (tmp_path / "told.json").write_text(said % ("9" * 400))
    heard = Heard()
    with watched(tmp_path, heard) as one:
        assert not one.fault()
    with pytest.raises(NotSteering):
        read(tmp_path / "told.json")


@pytest.mark.parametrize("name", ["told.lock", ".told.json.{pid}"])
def test_no_link_is_followed(tmp_path, name):
    """Root writes in a folder that is another's: what a link there leads to is not to be written,
    nor given to the folder's owner."""
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / name.format(pid=os.getpid())).symlink_to(precious)
    with pytest.raises(OSError, match="symbolic links"):
        write(tmp_path / "state" / "told.json", Told(paused=True))
    assert precious.read_text() == "precious"


def test_a_start_that_finds_nothing_makes_nothing(tmp_path):
    """No folder, no lock."""
    tidied(tmp_path / "none" / "told.json")
    tidied(tmp_path / "told.json")
    assert not list(tmp_path.iterdir())
