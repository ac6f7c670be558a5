"""The process: it waits for a store, writes verdicts once, ends when told, and report and gate agree."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError

from analysis.answers import report, stored
from analysis.gate import gate
from analysis.look import Memory, look
from analysis.service import run
from analysis.written import written
from collector.embedded import EmbeddedStore
from collector.migrate import Retention, migrate
from collector.store import StoreSettings, connect

from .world import T0

S = 10**9
FOREVER = Retention(10**8, 10**8)


@pytest.fixture(scope="module")
def client(tmp_path_factory) -> Iterator[object]:
    """The store as the service meets it: ClickHouse's HTTP interface over the embedded engine."""
    folder = tmp_path_factory.mktemp("store")
    with EmbeddedStore.open(folder, ("127.0.0.1", 0), "shadow", "default", "s3cret") as store:
        made = connect(StoreSettings(store.url, "shadow", "default", "s3cret"))
        migrate(made, "shadow", FOREVER)
        yield made
        made.close()


def verdicts(world):
    return world.client.query(
        f"SELECT verdict FROM verdicts WHERE experiment = '{world.experiment}' ORDER BY at"
    ).result_rows


class Borrowed:
    """The module's client, which a service must not close."""

    def __init__(self, client):
        self.client = client

    def __getattr__(self, name):
        return getattr(self.client, name)

    def close(self):
        pass


@pytest.mark.parametrize(
    ("slower", "code", "tpot"), [({"tpot": 1.15, "mismatch": 0.1}, 1, "fail"), ({}, 3, "pass")]
)
def test_from_exchanges_to_the_gate(world, slower, code, tpot):
    """1,320 pairs: 15 % slower tokens reject, equal ones pass on TPOT; report and gate agree."""
    settings = world.settings()
    world.traffic(60, 22, {"fp8": slower, "control": {}})
    world.store()
    world.heard(61, None)
    for arm in ("primary", "fp8", "control"):
        world.count(61, arm, "sampled", 1320)
    assert stored(world.client, settings) is None
    assert gate(stored(world.client, settings)).code == 3
    look(world.client, settings, Memory(), T0 + 62 * S, whole=True)
    tree = report(world.client, settings)
    metric = tree["candidates"]["fp8"]["metrics"]["tpot.mean"]
    assert metric["state"] == tpot
    assert metric["reference"] == "control"
    assert tree["candidates"]["fp8"]["coverage"] == 1.0
    assert tree["candidates"]["fp8"]["pairs"]["complete"] == 1320
    answer = gate(stored(world.client, settings))
    assert answer.code in {code, 0 if code == 3 else code}
    assert tree["verdict"] in answer.line


def test_nothing_but_errors_rejects(world):
    """Every answer of the candidate fails: reject, by way of the store."""
    settings = world.settings(control=None)
    world.traffic(40, 20, {"fp8": {"failure": 1.0}})
    world.store()
    world.heard(41, None)
    look(world.client, settings, Memory(), T0 + 42 * S, whole=True)
    assert gate(stored(world.client, settings)).code == 1


def test_without_data_it_holds_and_says_so(world):
    """Before the first exchange: a written hold, never a pass, and a report without a NaN."""
    settings = world.settings()
    look(world.client, settings, Memory(), T0)
    answer = gate(stored(world.client, settings))
    assert (answer.code, answer.line) == (3, "fp8: hold: no data yet")
    assert report(world.client, settings)["candidates"]["fp8"]["coverage"] is None


def test_a_report_writes_nothing(world):
    """Reading leaves no trace: not in events, not in verdicts."""
    settings = world.settings()
    report(world.client, settings)
    count = f"SELECT count() FROM events WHERE experiment = '{world.experiment}'"
    assert world.client.command(count) == 0
    assert verdicts(world) == []


def test_an_unchanged_verdict_is_written_once(world):
    """Looks without news append nothing; a reject stays whatever comes after."""
    settings = world.settings(control=None)
    world.traffic(40, 20, {"fp8": {"tpot": 1.5}})
    world.store()
    world.heard(40, 40)
    memory = look(world.client, settings, Memory(), T0 + 41 * S)
    for second in (43, 60, 80):
        memory = look(world.client, settings, memory, T0 + second * S)
        assert memory.verdicts["fp8"].verdict == "reject"
    assert verdicts(world) == [("reject",)]
    world.traffic(40, 60, {"fp8": {"tpot": 0.5}}, first=82)
    world.store()
    world.heard(122, 122)
    look(world.client, settings, memory, T0 + 123 * S)
    assert set(verdicts(world)) == {("reject",)}
    assert report(world.client, settings)["verdict"] == "reject"


def test_the_loop_waits_for_a_store_and_ends_when_told(world, monkeypatch):
    """Refused connections are waited out; told to end, it looks once more and returns 0 at once."""
    monkeypatch.setattr("analysis.looking.BACKOFF_S", (0.01,))
    settings, stop, tries = world.settings(control=None), threading.Event(), []
    world.exchange(0.1, "p1", "primary")
    world.exchange(0.1, "p1", "fp8")
    world.store()
    world.heard(1, None)

    def connect():
        tries.append(1)
        if len(tries) < 3:
            raise OperationalError("connection refused")
        stop.set()
        return Borrowed(world.client)

    began = time.monotonic()
    assert run(settings, connect, stop) == 0
    assert len(tries) == 3
    assert time.monotonic() - began < 5
    assert verdicts(world) == [("hold",)]


def test_the_last_look_waits_for_the_last_records(world):
    """Told to end with `settle_s`, it looks on until every worker's final record is stored."""
    settings, stop = world.settings(control=None), threading.Event()
    now = (time.time_ns() - T0) / S
    world.traffic(30, 20, {"fp8": {"tpot": 1.5}}, first=int(now) - 40)
    world.heard(now, now - 1)
    stop.set()

    def rest_of_it():
        time.sleep(0.5)
        world.store()
        world.heard(now + 1, None)

    late = threading.Thread(target=rest_of_it)
    late.start()
    assert run(settings, lambda: Borrowed(world.client), stop, settle_s=30) == 0
    late.join()
    assert verdicts(world)[-1] == ("reject",)


def test_a_store_that_keeps_refusing_ends_the_process(world, monkeypatch):
    """A bad statement is not retried for ever: exit 75, and a supervisor starts it again."""
    monkeypatch.setattr("analysis.looking.BACKOFF_S", (0.001,))

    class Refusing(Borrowed):
        def query(self, *_, **__):
            raise DatabaseError("Code: 47. DB::Exception: unknown identifier", code=47)

    assert run(world.settings(), lambda: Refusing(world.client), threading.Event()) == 75


def test_missing_tables_are_waited_for(world, monkeypatch):
    """Before the collector has made its tables: no refusal, it waits."""
    monkeypatch.setattr("analysis.looking.BACKOFF_S", (0.001,))
    stop, asked = threading.Event(), []

    class Early(Borrowed):
        def query(self, *_, **__):
            asked.append(1)
            if len(asked) == 9:
                stop.set()
            raise DatabaseError("Code: 60. DB::Exception: unknown table", code=60)

    assert run(world.settings(), lambda: Early(world.client), stop) == 0
    assert len(asked) >= 9


FORSAKEN = """
from analysis.service import run
from analysis.settings import Settings

def connect():
    raise ConnectionError("nobody serves the store")

raise SystemExit(run(Settings("e", "c1", ("fp8",), {"fp8": "x"}), connect))
"""


def test_sigterm_ends_it_at_once(tmp_path):
    """A process whose store is not there yet says so plainly, and ends with 0 within two seconds of the signal, and is nice."""
    process = subprocess.Popen(
        [sys.executable, "-c", FORSAKEN],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        cwd=Path(__file__).parents[2],
    )
    with process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(2)]
        assert b"waiting for the store and its tables" in said[1]
        assert b"nobody serves" not in said[1]  # a start is no outage yet
        assert os.getpriority(os.PRIO_PROCESS, process.pid) >= min(19, os.nice(0) + 10)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait(5) == 0
        assert time.monotonic() - began < 2


def test_a_clock_that_is_set_back_hides_no_verdict(world):
    """The newest verdict is the one that was written last, whatever the wall clock said."""
    settings = world.settings(control=None)
    world.traffic(40, 20, {"fp8": {"tpot": 1.5}})
    world.store()
    world.heard(40, 30)
    memory = look(world.client, settings, Memory(), T0 + 31 * S)
    assert written(world.client, settings, "fp8").verdict == "reject"
    first_ns = written(world.client, settings, "fp8").at_ns
    world.heard(41, 40)
    look(world.client, settings, memory, T0 - 3000 * S)
    last = written(world.client, settings, "fp8")
    assert last.at_ns > first_ns
    assert last.part["pairs"]["complete"] == 800
    assert last.rejected.since_ns == first_ns
