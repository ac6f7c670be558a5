"""The switch: what holds mirroring still, how fast, and what the records and the books say of it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import structlog
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from relay.raw import answering, client, hang, in_loop, proxy, until, upstream

from shadow.config import Config
from shadow.config.lifecycle import Isolation
from shadow.steering import told_file as steering
from shadow.steering.followed import Followed, ask
from shadow.steering.kill_switch import kill_reason
from shadow.steering.live import live
from shadow.steering.reload import Refused, accepted
from shadow.steering.switch import Switch
from shadow.steering.switch_figures import switch_figures
from shadow.steering.term import Term
from shadow.steering.told import NotSteering, Told, later, told_of
from shadow.steering.told_file import file_of
from shadow.steering.watcher import LOOK_S
from shadow.steering.windows import Windows

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHAT = b'POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 13\r\n\r\n{"model":"m"}'


def switch(*arms: str, isolation: Isolation | None = None) -> Switch:
    return Switch("e", "c1", arms or ("fp8",), isolation)


class NoLag:
    """A watch of a loop that never lags."""

    def take(self) -> list[int]:
        return [0] * 20

    def pace(self, tick_s: float) -> None:
        pass

    def stop(self) -> None:
        pass


# what holds it


def test_the_strongest_reason_is_the_one_that_is_said():
    """Kill switch before a pause before the end; each leaves, and mirroring goes on."""
    one = switch()
    one.hear(Told(stopped={"fp8": "verdict: reject"}, config_hash="c1"))
    one.tick(0, 0.0, 0)
    assert one.skip == "stopped"
    one.hear(Told(paused=True, stopped={"fp8": "verdict: reject"}, config_hash="c1"))
    one.tick(0, 0.0, 0)
    assert one.skip == "paused"
    one.killed = "/run/kill says 'on'"
    one.tick(0, 0.0, 0)
    assert one.skip == "kill_switch"
    one.killed = ""
    one.hear(Told())
    one.tick(0, 0.0, 0)
    assert one.skip == ""
    assert one.stills == {"stopped": 1, "paused": 1, "kill_switch": 1}


def test_an_end_is_one_configuration_s():
    """A changed configuration is another comparison: it mirrors, whatever ended before it."""
    one = switch()
    one.hear(Told(stopped={"fp8": "verdict: reject"}, config_hash="another"))
    one.tick(0, 0.0, 0)
    assert one.skip == ""


def test_one_arm_ends_and_the_others_go_on():
    """A final verdict takes its own candidate's rate away, nobody else's."""
    one = switch("fp8", "awq")
    one.hear(Told(stopped={"fp8": "verdict: reject"}, config_hash="c1"))
    one.tick(0, 0.0, 0)
    assert one.skip == ""
    assert one.rates({"fp8": 0.5, "awq": 0.25}) == {"fp8": 0.0, "awq": 0.25}


def test_a_said_rate_stands_before_the_configured_one():
    """Until it is taken back."""
    one = switch("fp8")
    one.hear(Told().rate("fp8", 0.1))
    assert one.rates({"fp8": 0.5}) == {"fp8": 0.1}
    one.hear(one.told.rate("fp8", None))
    assert one.rates({"fp8": 0.5}) == {"fp8": 0.5}


def test_what_records_say_of_a_window():
    """on, ending while copies run (5 s at most), off, after for 5 s, on."""
    said = Isolation()
    windows = Windows("e", said.period_s, said.window.least, said.window.most)
    start, end = windows.of(4_500_000)
    one = switch(isolation=said)
    assert one.lag is not None
    one.lag.watch = NoLag()
    seen = []
    for wall, copies in (
        (start - 1, 3), (start + 1, 3), (start + 2, 0), (start + 6, 3), (end + 0.1, 0), (end + 4.9, 0), (end + 5.5, 0),
    ):  # fmt: skip
        one.tick(int((wall - start + 100) * 1e9), wall, copies)
        seen.append((one.skip, one.mirroring))
    off = "shadow_off"
    assert seen == [
        ("", "on"), (off, "ending"), (off, "off"), (off, "off"), ("", "after"), ("", "after"), ("", "on"),
    ]  # fmt: skip


def test_the_guard_s_pause_reaches_the_switch():
    """Suspicion, probe, pause and return, by reason `lag`; the metrics tell each."""
    one = switch(isolation=Isolation())
    assert one.guard is not None

    class Lagging(NoLag):
        def take(self) -> list[int]:
            return [0] * 10 + [5_000_000] * (0 if one.skip else 10)

    assert one.lag is not None
    one.lag.watch = Lagging()
    wall = Windows("e", 400, 10, 30).of(100)[1] + 1
    for tenth in range(300):
        one.tick((tenth + 1) * 100_000_000, wall, 0)
    assert one.skip == "lag"
    assert (one.guard.paused, one.guard.pauses_total, one.guard.probes_total) == (True, 1, 1)
    assert 3 <= one.stills["lag"] <= 20  # slices of the probe, and the pause
    for tenth in range(300, 950):
        one.tick((tenth + 1) * 100_000_000, wall, 0)
        if not one.skip:
            break
    assert (one.skip, one.mirroring) == ("", "after")


def test_an_idle_loop_is_not_watched_and_its_pause_still_ends():
    """No timer wakes a proxy that nobody asks anything; what is paused comes back by the clock."""

    async def idle() -> tuple[bool, bool, str]:
        one = switch(isolation=Isolation())
        assert one.guard is not None
        wall = Windows("e", 400, 10, 30).of(100)[1] + 1
        one.tick(10**9, wall, 0, busy=False)
        assert one.lag is not None
        never = one.lag.watch is None
        one.tick(2 * 10**9, wall, 0)
        one.guard._pause(2.0)
        for second in range(3, 70):
            one.tick(second * 10**9, wall, 0, busy=False)
        return never, one.lag.watch is None, one.skip

    assert asyncio.run(idle()) == (True, True, "")


# the term


def moment(wall_s: float) -> datetime:
    return datetime.fromtimestamp(wall_s, UTC)


def test_before_its_start_and_after_its_end_nothing_is_mirrored():
    """By the wall clock alone: set back, it means what it says then; a person's pause is stronger."""
    one = switch()
    one.term = Term(moment(100), moment(200))
    seen = []
    for wall in (0, 99.9, 100, 199.9, 200, 300, 150, 50):
        one.tick(0, wall, 0)
        seen.append(one.skip)
    early, late = "not_started", "stopped"
    assert seen == [early, early, "", "", late, late, "", early]
    assert one.stills == {early: 2, late: 1}
    one.hear(Told(paused=True))
    one.tick(0, 50, 0)
    assert one.skip == "paused"


def test_one_arm_s_end_is_not_the_term_s():
    """Where one has ended by its verdict and time ends all, the log says the time."""
    one = switch("fp8", "awq")
    one.term = Term(stop_at=moment(200))
    one.hear(Told(stopped={"fp8": "verdict: reject"}, config_hash="c1"))
    with structlog.testing.capture_logs() as logs:
        one.tick(0, 200, 0)
    assert [log["detail"] for log in logs] == ["stop_at.time: 1970-01-01T00:03:20Z"]


@in_loop
async def test_the_term_holds_without_an_analysis_and_can_be_moved(tmp_path):
    """Requests are skipped by its words on every arm, the primary too; a changed file moves it."""
    now = datetime.now(UTC)
    early, late = now - timedelta(hours=1), now + timedelta(hours=1)
    path = tmp_path / "shadow.yaml"
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as arm,
        proxy(primary.url, {"fp8": arm.url}, start_at=late) as stage,
    ):
        said = stage.proxy.config.model_dump(mode="json", exclude_none=True)
        said["state"] = str(tmp_path / "state")

        def put(**term) -> None:
            path.with_suffix(".new").write_text(yaml.safe_dump(said | term))
            path.with_suffix(".new").rename(path)

        put()
        with steered(stage, tmp_path, path) as one:
            await ask_once(stage.port)
            put(start_at=early)
            await until(lambda: one.skip == "")
            await ask_once(stage.port)
            put(start_at=early, stop_at={"time": now})
            await until(lambda: one.skip == "stopped")
            await ask_once(stage.port)
            put(start_at=late, stop_at={"time": early})  # a mistake: what held goes on
            put(start_at=early, stop_at={"time": late})
            os.kill(os.getpid(), signal.SIGHUP)
            await until(lambda: one.skip == "")
        for name in ("primary", "fp8"):
            assert stage.ledger.counts[name, "skipped", "not_started"] == 1
            assert stage.ledger.counts[name, "skipped", "stopped"] == 1
            assert stage.ledger.counts[name, "captured", ""] == 1
            assert stage.ledger.balanced(name)
        assert len(arm.connections) == 1


# the kill switch


@pytest.mark.parametrize("text", ["on", "1", "stop!", "ON\n", "\x00"])
def test_a_file_that_says_something_stops(tmp_path, text):
    """Anything but a word for no."""
    (tmp_path / "kill").write_text(text)
    assert kill_reason(tmp_path / "kill")


@pytest.mark.parametrize("text", ["", "off", "Off\n", "0", "false", "no", "  \n"])
def test_a_file_that_says_no_does_not(tmp_path, text):
    """A ConfigMap's key is always there; it says off."""
    (tmp_path / "kill").write_text(text)
    assert kill_reason(tmp_path / "kill") == ""


def test_what_cannot_be_read_stops(tmp_path):
    """No file is no kill; a folder in its place, a missing mount and a loop of links are."""
    assert kill_reason(tmp_path / "kill") == ""
    assert "missing" in kill_reason(tmp_path / "mount" / "kill")
    (tmp_path / "folder").mkdir()
    assert "cannot be read" in kill_reason(tmp_path / "folder")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert "cannot be read" in kill_reason(tmp_path / "loop")
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    assert "leads nowhere" in kill_reason(tmp_path / "link")


@pytest.mark.parametrize("opened", [False, True])
def test_a_pipe_does_not_hold_the_watch(tmp_path, opened):
    """It is no file, with a writer or without: said at once, and forgotten when it has gone."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    end = os.open(path, os.O_RDWR) if opened else None
    assert "no file" in kill_reason(path)
    if end is not None:
        os.close(end)
    path.unlink()
    assert kill_reason(path) == ""


def test_a_word_behind_many_blanks_stops(tmp_path):
    """What is too long to be read says something."""
    (tmp_path / "kill").write_text(" " * 4096 + "on")
    assert "longer" in kill_reason(tmp_path / "kill")


def mount(folder: Path, text: str, version: str) -> None:
    """A ConfigMap's volume: ..data leads to a folder of one version, and is swapped."""
    made = folder / f"..{version}"
    made.mkdir()
    (made / "mirroring").write_text(text)
    (folder / "..new").symlink_to(made.name)
    (folder / "..new").rename(folder / "..data")
    if not (folder / "mirroring").is_symlink():
        (folder / "mirroring").symlink_to("..data/mirroring")


async def ask_once(port: int) -> None:
    async with client(port) as user:
        await user.write(CHAT)
        assert await user.exactly(len(OK)) == OK


@contextmanager
def steered(stage, tmp_path, path: Path | None = None, **more):
    """Changes reach the running stage's mirror, with everything in tmp_path."""
    tree = stage.proxy.config.model_dump(mode="json", exclude_none=True)
    config = Config.model_validate(tree | {"state": str(tmp_path / "state")} | more)
    with live(stage.proxy.mirror, config, path):
        yield stage.proxy.mirror.switch


@in_loop
async def test_a_swapped_config_map_stops_all_within_a_second(tmp_path):
    """The next requests have no copies, the one that is under way is dropped (its primary's record
    is not); the same file starts it.
    """
    mount(tmp_path, "off", "1")
    seen = []

    async def first_hangs(connection):
        seen.append(connection)
        await (hang if len(seen) == 1 else answering(OK))(connection)

    async with (
        upstream(answering(OK)) as primary,
        upstream(first_hangs) as arm,
        proxy(primary.url, {"fp8": arm.url}) as stage,
    ):
        with steered(stage, tmp_path, kill_switch=str(tmp_path / "mirroring")) as switch:
            await ask_once(stage.port)
            await until(lambda: len(arm.connections) == 1)
            began = time.monotonic()
            mount(tmp_path, "on", "2")
            await until(lambda: switch.skip == "kill_switch")
            assert time.monotonic() - began < 1
            await ask_once(stage.port)
            await until(lambda: stage.ledger.counts.get(("fp8", "dropped", "switched_off")) == 1)
            assert [e.arm for e in stage.publisher.exchanges] == ["primary"]
            assert stage.ledger.counts["fp8", "skipped", "kill_switch"] == 1
            mount(tmp_path, "off", "3")
            await until(lambda: switch.skip == "")
        await ask_once(stage.port)
        assert len(await stage.publisher.wait_for(3)) == 3
        assert all(stage.ledger.balanced(name) for name in ("primary", "fp8"))


@in_loop
async def test_an_upload_that_is_under_way_has_no_copy_once_it_stops():
    """Decided before, whole only after: dropped `switched_off`; the primary's answer comes as ever."""
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as arm,
        proxy(primary.url, {"fp8": arm.url}) as stage,
        client(stage.port) as user,
    ):
        await user.write(CHAT[:-5])
        await until(lambda: primary.connections)
        stage.proxy.mirror.switch.killed = "somebody said so"
        await until(lambda: stage.proxy.mirror.switch.skip == "kill_switch")
        await user.write(CHAT[-5:])
        assert await user.exactly(len(OK)) == OK
        await until(lambda: stage.ledger.counts.get(("fp8", "dropped", "switched_off")) == 1)
        assert not arm.connections
        assert stage.ledger.balanced("fp8")


@in_loop
async def test_a_tap_has_no_windows(tmp_path):
    """Production does not pass it: there is nothing to spare it."""
    async with upstream(answering(OK)) as primary:
        said = {"isolation": "on", "arms": {"fp8": "http://127.0.0.1:9"}}
        async with proxy(primary.url, attach="tap", **said) as stage:
            assert stage.proxy.mirror.switch.guard is None
        async with proxy(primary.url, **said) as stage:
            assert stage.proxy.mirror.switch.guard is not None


def test_a_watch_that_hangs_counts_as_unreadable():
    """A mount that is gone may hang whoever reads it: without a look mirroring stops."""
    one = switch()
    one.unseen = lambda: "/run/kill was not looked at"
    one.tick(0, 0.0, 0)
    assert one.skip == "kill_switch"


# what was said, by file and by another host


@in_loop
async def test_a_pause_and_a_rate_reach_a_running_proxy(tmp_path):
    """By the state folder's file; records carry the weight of the moment they were decided in."""
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as arm,
        proxy(primary.url, {"fp8": arm.url}) as stage,
    ):
        file = file_of(tmp_path / "state", "relay-test")
        with steered(stage, tmp_path) as switch:
            await ask_once(stage.port)
            steering.change(file, lambda told: Told(paused=True, by="ann"))
            await until(lambda: switch.skip == "paused")
            await ask_once(stage.port)
            assert stage.ledger.counts["fp8", "skipped", "paused"] == 1
            steering.change(file, lambda told: Told(by="ann").rate("fp8", 0.9))
            await until(lambda: switch.skip == "" and stage.proxy.mirror.arms[0].sample == 0.9)
            for _ in range(20):
                await ask_once(stage.port)
        await until(lambda: len(stage.publisher.exchanges) >= 2 + 2 * 12)
        first, *later = [e for e in stage.publisher.exchanges if e.arm == "fp8"]
        assert first.weight == 1.0
        assert {e.weight for e in later} == {1 / 0.9}
        assert {e.mirroring for e in later} <= {"after", "on"}


@in_loop
async def test_a_fault_in_watching_is_shown(tmp_path, monkeypatch):
    """A thread of ours that cannot look says so by the metrics; mirroring and looking go on."""
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as arm,
        proxy(primary.url, {"fp8": arm.url}) as stage,
    ):
        with steered(stage, tmp_path) as switch:
            assert "shadow_watch_fault 0.0" in _metrics(stage)
            monkeypatch.setattr("shadow.steering.looks.stamp", None)
            await until(switch.fault)
            assert "shadow_watch_fault 1.0" in _metrics(stage)
            assert "shadow_watch_faults_total 1.0" in _metrics(stage)
            await ask_once(stage.port)
            await stage.publisher.wait_for(2)
            monkeypatch.undo()
            await until(lambda: not switch.fault())
            file = file_of(tmp_path / "state", "relay-test")
            steering.change(file, lambda told: Told(paused=True))
            await until(lambda: switch.skip == "paused")


@in_loop
async def test_what_was_said_outlives_the_proxy(tmp_path):
    """A proxy that starts while mirroring is paused has no copy of its first request either."""
    steering.change(file_of(tmp_path / "state", "relay-test"), lambda told: Told(paused=True))
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as arm,
        proxy(primary.url, {"fp8": arm.url}) as stage,
    ):
        with steered(stage, tmp_path) as switch:
            assert switch.skip == "paused"
            await ask_once(stage.port)
            assert stage.ledger.counts["fp8", "skipped", "paused"] == 1
        assert not arm.connections


@in_loop
async def test_a_damaged_file_pauses(tmp_path):
    """Nobody knows whether it said pause."""
    file = file_of(tmp_path / "state", "relay-test")
    file.parent.mkdir()
    file.write_text('{"paused": "perhaps"}')
    async with (
        upstream(answering(OK)) as primary,
        proxy(primary.url, {"fp8": "http://127.0.0.1:9"}) as stage,
    ):
        with steered(stage, tmp_path) as switch:
            await until(lambda: switch.skip == "paused")


@in_loop
async def test_a_word_that_is_gone_stands_until_there_is_another(tmp_path):
    """A state folder that is taken away resumes nothing; a resume does."""
    file = file_of(tmp_path / "state", "relay-test")
    async with (
        upstream(answering(OK)) as primary,
        proxy(primary.url, {"fp8": "http://127.0.0.1:9"}) as stage,
    ):
        with steered(stage, tmp_path) as switch:
            steering.change(file, lambda told: replace(told, paused=True, at_ns=1))
            await until(lambda: switch.skip == "paused")
            shutil.rmtree(file.parent)
            await asyncio.sleep(2 * LOOK_S)  # there is nothing to wait for
            assert switch.skip == "paused"
            steering.change(file, lambda told: replace(told, paused=False, at_ns=2))
            await until(lambda: not switch.skip)


@contextmanager
def control_port(said: dict):
    """A control port that answers what `said` is then, to whoever shows the token."""
    asked = []

    class Port(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.headers["Authorization"])
            body = json.dumps(said).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Port)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@in_loop
async def test_another_host_s_word_is_followed_and_stands_while_it_is_away(tmp_path):
    """Polled with the token; away or nonsense changes nothing; it is kept for the next start."""
    said = Told(paused=True, by="ann").document()
    async with (
        upstream(answering(OK)) as primary,
        proxy(primary.url, {"fp8": "http://127.0.0.1:9"}) as stage,
    ):
        with control_port(said) as (url, asked):
            admin = {"follow": url, "token": "t0ken"}
            with steered(stage, tmp_path, admin=admin) as switch:
                await until(lambda: switch.skip == "paused")
                said["paused"] = None
                await until(lambda: len(asked) >= 3)
                assert switch.skip == "paused"
        assert set(asked) == {"Bearer t0ken"}
        assert steering.read(file_of(tmp_path / "state", "relay-test")).by == "ann"


def test_a_control_port_that_is_away_is_one_line():
    """Nothing listens, or it redirects elsewhere with our token: no word of mirroring."""
    with pytest.raises(NotSteering, match=r"http://127.0.0.1:9/api/v1/mirror: .*refused"):
        ask(Followed("http://127.0.0.1:9"))


@pytest.mark.parametrize(
    "answer",
    [
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n" + b"[" * 9000,
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    ],
)
def test_whatever_a_control_port_answers_is_one_line(answer):
    """Nothing of it ends the thread that follows: it asks again."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as asked:
                asked.recv(4096)
                asked.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(NotSteering) as refused:
            ask(Followed(f"http://127.0.0.1:{server.getsockname()[1]}"))
        thread.join()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "document",
    [None, [], {"paused": 1}, {"rates": {"a": 2}}, {"rates": {"a": True}}, {"stopped": {"a": 1}}, {"by": 3}, {"rates": []}],
)  # fmt: skip
def test_a_word_that_is_none(document):
    """Each field has its type, or nothing of it holds."""
    with pytest.raises(NotSteering):
        told_of(document)


def test_a_control_port_without_memory_takes_nothing_back():
    """An older word (or none) of people does not replace a newer one; ends come through."""
    paused = Told(paused=True, by="ann", at_ns=5)
    assert later(paused, Told()) == paused
    assert later(paused, Told(stopped={"a": "x"}, config_hash="c")).stopped == {"a": "x"}
    assert later(paused, Told(by="ann", at_ns=6)) == Told(by="ann", at_ns=6)


def test_a_word_comes_back_as_it_was(tmp_path):
    """Through the file; what a later version adds is ignored."""
    told = Told(paused=True, by="ann", reason="deploy", at_ns=5, stopped={"a": "x"}).rate("a", 0.5)
    steering.write(tmp_path / "f", told)
    assert steering.read(tmp_path / "f") == told
    assert told_of(told.document() | {"later": 1}) == told


def test_two_writers_lose_nothing(tmp_path):
    """Each changes what the other wrote."""
    file = tmp_path / "f.json"

    def many(arm: str) -> None:
        for n in range(50):
            steering.change(file, lambda told, n=n: told.rate(f"{arm}{n}", 0.5))

    threads = [threading.Thread(target=many, args=(arm,)) for arm in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(steering.read(file).rates) == 100


# a changed configuration


def tree(**changes) -> dict:
    return {
        "experiment": "e",
        "capture": "text",
        "primary": {"url": "http://127.0.0.1:1"},
        "arms": {"fp8": {"role": "candidate", "url": "http://127.0.0.1:2", "sample": 0.25}},
        "stream": {"embedded": "s"},
        "store": {"embedded": "d"},
    } | changes


def test_rates_and_bounds_hold_at_once_the_rest_waits():
    """The measurement stays the same; what needs a start is named."""
    arms = {
        "fp8": {"role": "candidate", "url": "http://127.0.0.1:2", "sample": 0.5, "concurrency": 9}
    }
    now = Config.model_validate(tree())
    changed = tree(
        arms=arms,
        limits={"request_bytes": "1MiB", "queue_bytes": "32MiB"},
        drain="9s",
        start_at=moment(0),
        stop_at={"time": moment(9), "pairs": 5},
    )
    merged, waiting = accepted(now, Config.model_validate(changed))
    assert merged.arms["fp8"].sample == 0.5
    assert merged.arms["fp8"].concurrency == 200
    assert merged.limits.request_bytes == 2**20
    assert (merged.start_at, merged.stop_at.time) == (moment(0), moment(9))
    waits = ["arms.fp8.concurrency", "drain", "limits.queue_bytes", "stop_at.pairs"]
    assert sorted(waiting) == waits


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"capture": "full"}, "capture"),
        ({"primary": {"url": "http://127.0.0.1:3"}}, "primary.url"),
        ({"experiment": "f"}, "experiment"),
        ({"arms": {}}, "arms.fp8"),
    ],
)
def test_another_measurement_is_refused_whole(changes, key):
    """Not even the rate beside it holds; the key is named."""
    with pytest.raises(Refused, match=key):
        accepted(Config.model_validate(tree()), Config.model_validate(tree(**changes)))


@in_loop
async def test_a_changed_file_and_sighup(tmp_path):
    """A new rate holds; a broken file and another measurement change nothing; SIGHUP asks at once."""
    async with (
        upstream(answering(OK)) as primary,
        proxy(primary.url, {"fp8": "http://127.0.0.1:9"}) as stage,
    ):
        arm = stage.proxy.mirror.arms[0]
        path = tmp_path / "shadow.yaml"
        said = stage.proxy.config.model_dump(mode="json", exclude_none=True)
        said["state"] = str(tmp_path / "state")

        def put(rate: float, **more) -> None:
            said["arms"]["fp8"]["sample"] = rate
            path.with_suffix(".new").write_text(yaml.safe_dump(said | more))
            path.with_suffix(".new").rename(path)

        put(1.0)
        with steered(stage, tmp_path, path):
            put(0.5)
            await until(lambda: arm.sample == 0.5)
            put(0.1, capture="text")
            path.with_suffix(".bad").write_text("{")
            await asyncio.sleep(0.4)
            path.with_suffix(".bad").rename(path)
            await asyncio.sleep(0.4)
            assert arm.sample == 0.5
            put(0.25)
            os.kill(os.getpid(), 1)
            await until(lambda: arm.sample == 0.25)


@in_loop
async def test_a_sighup_during_the_last_records_ends_nobody(tmp_path):
    """`shadow proxy` ignores it until it listens to it, and again once it does no more."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        async with (
            upstream(answering(OK)) as primary,
            proxy(primary.url, {"fp8": "http://127.0.0.1:9"}) as stage,
        ):
            with steered(stage, tmp_path):
                assert signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


# windows, in the proxy


@in_loop
async def test_in_a_window_the_primary_alone_is_recorded(tmp_path, monkeypatch):
    """Its exchange says off, arms skip `shadow_off`, the books balance; afterwards pairs say after."""
    on = []
    monkeypatch.setattr(Windows, "since", lambda self, now_s: None if on else 9.0)
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as arm,
        proxy(primary.url, {"fp8": arm.url}, isolation={"pause_lag": "1s"}) as stage,
    ):
        switch = stage.proxy.mirror.switch
        await until(lambda: switch.skip == "shadow_off")
        await ask_once(stage.port)
        (alone,) = await stage.publisher.wait_for(1)
        assert (alone.arm, alone.mirroring, alone.weight) == ("primary", "off", 1.0)
        assert not arm.connections
        assert stage.ledger.counts["fp8", "skipped", "shadow_off"] == 1
        assert stage.ledger.counts["primary", "sampled", ""] == 1
        on.append(True)
        await until(lambda: switch.skip == "")
        await ask_once(stage.port)
        later = (await stage.publisher.wait_for(3))[1:]
        assert {(e.arm, e.mirroring) for e in later} == {("primary", "after"), ("fp8", "after")}
        assert all(stage.ledger.balanced(name) for name in ("primary", "fp8"))
        text = _metrics(stage)
        assert 'shadow_mirroring{state="on"} 1.0' in text
        assert 'shadow_mirroring_stills_total{reason="shadow_off"} 1.0' in text
        assert 'shadow_loop_lag_seconds{mirroring="off",quantile="0.99"}' in text


def _metrics(stage) -> str:
    class Families:
        def collect(self):
            return switch_figures(stage.proxy.mirror)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families())
    return generate_latest(registry).decode()


def test_a_relative_kill_switch_is_named_whole(tmp_path, monkeypatch):
    """It counts from where the process was started: only the whole path says where it was looked."""
    monkeypatch.chdir(tmp_path)
    assert kill_reason(Path("mount/kill")) == f"{tmp_path}/mount is missing"
