"""`shadow mirror` and the control port: who may say what, that it holds at once, that it is kept."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pwd
import socket
import time
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from analysis.api import api
from analysis.settings import Settings
from shadow.cli import steering
from shadow.cli.commands import run
from shadow.cli.mirroring import Worker
from shadow.cli.serving import serving
from shadow.cli.steering import control_port
from shadow.cli.steering_port import add_mirror
from shadow.config import Config
from shadow.config.units import Address
from shadow.steering.steer import Unfit, steer, tell_ended
from shadow.steering.told import Told, later
from shadow.steering.told_file import change, file_of, read

ARMS = {"fp8": 0.25, "control": 0.5}
SETTINGS = Settings("e", "c1", ("fp8",), {"fp8": "k"})


def tree(tmp_path: Path, **changes) -> dict:
    arms = {
        "fp8": {"role": "candidate", "url": "http://127.0.0.1:2", "sample": 0.25},
        "control": {"role": "control", "url": "http://127.0.0.1:3", "sample": 0.5},
    }
    return {
        "experiment": "e",
        "capture": "text",
        "primary": {"url": "http://127.0.0.1:1"},
        "arms": arms,
        "stream": {"embedded": str(tmp_path / "stream")},
        "store": {"embedded": str(tmp_path / "store"), "listen": "127.0.0.1:9"},
        "state": str(tmp_path / "state"),
    } | {**changes, "admin": {"health": "127.0.0.1:1", **changes.get("admin", {})}}


class Store:
    """Takes events, or is away."""

    def __init__(self, *, away: bool = False) -> None:
        self.away, self.rows = away, []

    def __call__(self):
        if self.away:
            raise ConnectionError("nobody there")
        return self

    def insert(self, table, rows, column_names):
        self.rows += [dict(zip(column_names, row, strict=True)) for row in rows]

    def close(self):
        pass


def app(tmp_path: Path, store: Store, token: str = "") -> web.Application:
    made = api(SETTINGS, store, token)
    config = Config.model_validate(tree(tmp_path))
    add_mirror(made, file_of(tmp_path / "state", "e"), config, store)
    return made


def asked(application: web.Application, *requests) -> list[tuple[int, dict]]:
    """(status, JSON) of each (path, document, fields); without a document it is a GET."""

    async def ask():
        found = []
        async with TestClient(TestServer(application)) as client:
            for path, said, fields in requests:
                call = (
                    client.get(path, headers=fields)
                    if said is None
                    else client.post(path, json=said, headers=fields)
                )
                answer = await call
                found.append((answer.status, await answer.json()))
        return found

    return asyncio.run(ask())


def test_a_pause_by_the_port(tmp_path):
    """It holds at once, for whoever reads the file; by whom and when stands in the store."""
    store = Store()
    ((status, said), (_, got)) = asked(
        app(tmp_path, store),
        ("/api/v1/mirror/pause", {"by": "ann", "reason": "deploy"}, {}),
        ("/api/v1/mirror", None, {}),
    )
    assert (status, said["paused"], said["recorded"]) == (200, True, True)
    assert (got["paused"], got["by"], got["reason"], got["experiment"]) == (
        True,
        "ann",
        "deploy",
        "e",
    )
    assert read(file_of(tmp_path / "state", "e")).paused
    assert [(row["kind"], json.loads(row["detail"])) for row in store.rows] == [
        ("mirror_pause", {"by": "ann", "reason": "deploy"})
    ]


def test_a_store_that_is_away_keeps_nobody_from_pausing(tmp_path):
    """Said and heard; that it was not recorded is said too."""
    ((status, said),) = asked(
        app(tmp_path, Store(away=True)), ("/api/v1/mirror/pause", {"by": "ann"}, {})
    )
    assert (status, said["paused"], said["recorded"]) == (200, True, False)


def test_a_port_whose_file_another_holds_goes_on(tmp_path):
    """Who says something waits for the other process that changes the file; nobody else does."""

    async def ask() -> tuple[bool, int, dict]:
        file = file_of(tmp_path / "state", "e")
        file.parent.mkdir()
        descriptor = os.open(file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        async with TestClient(TestServer(app(tmp_path, Store()))) as client:
            async with asyncio.TaskGroup() as tasks:
                saying = client.post("/api/v1/mirror/pause", json={"by": "ann"})
                pause = tasks.create_task(saying)
                for _ in range(3):
                    got = await client.get("/api/v1/mirror")
                waited = not pause.done()
                os.close(descriptor)
            return waited, got.status, await pause.result().json()

    waited, status, said = asyncio.run(asyncio.wait_for(ask(), 10))
    assert (waited, status, said["paused"]) == (True, 200, True)


def test_the_token_guards_it(tmp_path):
    """Without it neither read nor said; a page of a browser cannot say it by accident."""
    guarded = app(tmp_path, Store(), "t0ken")
    shown = {"Authorization": "Bearer t0ken"}
    answers = asked(
        guarded,
        ("/api/v1/mirror/pause", {"by": "eve"}, {}),
        ("/api/v1/mirror", None, {}),
        ("/api/v1/mirror/pause", {"by": "ann"}, {**shown, "Content-Type": "text/plain"}),
        ("/api/v1/mirror", None, shown),
    )
    assert [status for status, _ in answers] == [401, 401, 415, 200]
    assert not answers[-1][1]["paused"]


@pytest.mark.parametrize(
    ("action", "said", "why"),
    [
        ("pause", {}, "by: say who"),
        ("pause", {"by": 1}, "by: say who"),
        ("pause", {"by": "a", "reason": 1}, "reason: not a text"),
        ("rate", {"by": "a", "arm": "fp9", "rate": 0.1}, "arm: there is no fp9; there are: fp8, control"),
        ("rate", {"by": "a", "arm": "fp8", "rate": 1.5}, "a share from 0 to 1, or `file`"),
        ("rate", {"by": "a", "arm": "fp8", "rate": "1"}, "rate: a share"),
        ("rate", {"by": "a", "arm": "fp8", "rate": 10**400}, "rate: a share"),
        ("rate", {"by": "a", "arm": "fp8", "rate": float("nan")}, "rate: a share"),
    ],
)  # fmt: skip
def test_what_cannot_hold(action, said, why):
    """One line, and nothing changes."""
    with pytest.raises(Unfit, match=why):
        steer(Told(), action, said, ARMS)


def test_rates_and_pauses_do_not_touch_each_other():
    """Each stands until it is taken back."""
    told = steer(Told(), "rate", {"by": "a", "arm": "fp8", "rate": 0.1}, ARMS)
    told = steer(told, "pause", {"by": "b"}, ARMS)
    assert (told.paused, told.rates, told.by) == (True, {"fp8": 0.1}, "b")
    told = steer(told, "resume", {"by": "b"}, ARMS)
    assert (told.paused, told.rates) == (False, {"fp8": 0.1})
    assert steer(told, "rate", {"by": "a", "arm": "fp8", "rate": None}, ARMS).rates == {}


def test_a_clock_set_back_makes_no_word_an_older_one():
    """Followers take the newer word: what is said last is the newest, whatever the clock says."""
    ahead = Told(at_ns=time.time_ns() + 3600 * 10**9)
    said = steer(ahead, "pause", {"by": "a"}, ARMS)
    assert later(ahead, said) == said


def test_a_deep_body_is_a_mistake_of_the_caller(tmp_path):
    """400 with the reason; the store has nothing to do with it."""

    async def ask() -> tuple[int, str]:
        async with TestClient(TestServer(app(tmp_path, Store()))) as client:
            fields = {"Content-Type": "application/json"}
            deep = "[" * 100_000
            answer = await client.post("/api/v1/mirror/pause", data=deep, headers=fields)
            return answer.status, (await answer.json())["error"]

    assert asyncio.run(ask()) == (400, "the JSON is nested too deep")


def test_what_was_said_is_for_its_owner_alone(tmp_path):
    """Whatever the umask: it names people."""
    before = os.umask(0)
    try:
        file = file_of(tmp_path / "state", "e")
        change(file, lambda told: steer(told, "pause", {"by": "a"}, ARMS))
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in file.parent.iterdir()}
    assert (modes, file.parent.stat().st_mode & 0o777) == ({0o600}, 0o700)


def test_an_end_takes_no_pause_back(tmp_path):
    """Neither where the file cannot be read at this moment, nor where it is damaged."""
    file = file_of(tmp_path / "state", "e")
    change(file, lambda told: steer(told, "pause", {"by": "a"}, ARMS))
    held = file.rename(file.with_suffix(".held"))
    file.mkdir()  # opening it is an OSError
    assert not tell_ended(file, "c", {"fp8": "verdict: reject"})
    file.rmdir()
    held.rename(file)
    assert (read(file).paused, read(file).by) == (True, "a")
    file.write_text("{")
    assert tell_ended(file, "c", {"fp8": "verdict: reject"})
    assert (read(file).paused, read(file).stopped) == (True, {"fp8": "verdict: reject"})
    change(file, lambda told: steer(told, "resume", {"by": "a"}, ARMS))
    assert not read(file).paused


def test_an_end_is_news_once(tmp_path):
    """And again when it changes; people's words stay as they are."""
    file = file_of(tmp_path / "state", "e")
    assert tell_ended(file, "c1", {}) is False
    assert tell_ended(file, "c1", {"fp8": "verdict: reject"})
    assert not tell_ended(file, "c1", {"fp8": "verdict: reject"})
    assert read(file).stopped == {"fp8": "verdict: reject"}
    assert tell_ended(file, "c2", {"fp8": "verdict: reject"})
    assert tell_ended(file, "c2", {})
    assert read(file) == Told(config_hash="c2")


def command(tmp_path: Path, capsys, *words: str, **changes) -> tuple[int, str, str]:
    path = tmp_path / "shadow.yaml"
    path.write_text(yaml.safe_dump(tree(tmp_path, **changes)))
    code = run(["mirror", *words, "-c", str(path)])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_command_by_the_state_folder(tmp_path, capsys):
    """Without a control port it is kept; nothing runs here: one plain line says when it holds."""
    code, out, err = command(tmp_path, capsys, "rate", "fp8", "0.1", "--by", "ann")
    assert code == 0
    assert "control: rate 0.5 (configured)\nfp8: rate 0.1 (said)" in out
    assert err.count("\n") == 1
    assert "no proxy answers on this machine: kept in " in err
    code, out, err = command(tmp_path, capsys, "pause", "--by", "ann", "--reason", "deploy")
    assert (code, out.splitlines()[0][:24]) == (0, "said: paused (by ann, 20")
    assert command(tmp_path, capsys, "rate", "fp8", "file")[1].count("configured") == 2
    assert "said: not paused" in command(tmp_path, capsys, "resume")[1]


def test_a_user_without_a_name_may_pause(tmp_path, capsys, monkeypatch):
    """A container's user often has none, and an emergency is no time to look up an option."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)

    def nobody(_uid):
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    code, out, _ = command(tmp_path, capsys, "pause")
    assert (code, read(file_of(tmp_path / "state", "e")).by) == (0, f"user {os.getuid()}")
    assert out.startswith(f"said: paused (by user {os.getuid()}, 20")


@pytest.mark.parametrize(("states", "status"), [(["on"], 2), (["on", "on", "paused"], 0)])
def test_a_pause_that_a_proxy_does_not_hear_of_is_none(
    tmp_path, capsys, monkeypatch, states, status
):
    """Said in another folder it is written where nobody reads it: never a 0 while one mirrors."""
    monkeypatch.setattr(steering, "HEARD_S", 0.3)
    asked = iter(states)
    last = states[-1]
    seen = lambda _config: [Worker("127.0.0.1:9091", next(asked, last))]  # noqa: E731
    monkeypatch.setattr(steering, "workers", seen)
    code, out, err = command(tmp_path, capsys, "pause")
    assert code == status
    assert out.startswith("said: paused")
    assert ("the proxy at 127.0.0.1:9091 still mirrors: it does not read /" in err) is (status == 2)


def test_the_command_by_the_port(tmp_path, capsys):
    """Where there is one it is asked, with the token; what it refuses is one line, exit 2."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = Address("127.0.0.1", probe.getsockname()[1])
    admin = {"control": str(address)}
    with serving(address, lambda: app(tmp_path, Store()), "admin.control"):
        code, out, err = command(tmp_path, capsys, "pause", admin=admin)
        assert (code, err) == (0, "")
        assert out.startswith("said: paused")
        follow = {"follow": f"http://{address}"}
        code, _, err = command(tmp_path, capsys, "rate", "fp9", "0.5", admin=follow)
        assert code == 2
        assert "arm: there is no fp9" in err
    _, out, err = command(tmp_path, capsys, "resume", admin=admin)
    assert out.startswith("said: not paused")
    assert err.count("\n") == 1
    code, _, err = command(tmp_path, capsys, "resume", admin=follow)
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    "words",
    [
        [], ["rate"], ["rate", "fp8"], ["pause", "fp8", "1"], ["rate", "fp8", "much"], ["rate", "x", "0.1"],
        ["rate", "fp8", "2"], ["rate", "fp8", "nan"],
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(tmp_path, capsys, words):
    """Exit 2, and nothing was said; without an action too. What only a program says is no advice."""
    code, _, err = command(tmp_path, capsys, *words)
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("shadow: ")
    assert "null" not in err
    assert not file_of(tmp_path / "state", "e").exists()


def test_which_port_is_asked(tmp_path):
    """The followed one before our own; an address of every host means this one."""
    token = {"token": "t" * 20}

    def port(**admin):
        return control_port(Config.model_validate(tree(tmp_path, admin={**admin, **token})))

    assert port() is None
    assert port(control="0.0.0.0:9090").url == "http://127.0.0.1:9090"
    assert port(control="127.0.0.1:9090", follow="http://a:1").url == "http://a:1"
