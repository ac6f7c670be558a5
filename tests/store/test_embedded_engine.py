"""One folder, one process; handles side by side; a clear line for whatever keeps it from opening."""

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from collector.embedded import Access, EmbeddedStore, serving
from collector.embedded.engine import Engine, Frame, engine_errors
from collector.embedded.errors import EngineError, engine_error, status_of
from collector.folder import EXTRA, Misconfigured, locked_by
from collector.store import StoreSettings, connect, open_folder
from collector.store_errors import StoreUnavailable

LOCAL = ("127.0.0.1", 0)


@pytest.fixture
def engine(tmp_path):
    opened = Engine.open(tmp_path / "store")
    yield opened
    opened.close()


def query(engine, text, frame=None):
    with engine.handle(frame or Frame()) as handle, engine_errors():
        return handle.query(text, "TabSeparated").bytes()


def test_a_folder_that_another_process_holds_is_named_with_its_pid(tmp_path):
    """By both ways to open it; and it opens once that process is gone."""
    folder = tmp_path / "store"
    script = (
        "import sys; from pathlib import Path; from collector.embedded.engine import Engine\n"
        "engine = Engine.open(Path(sys.argv[1])); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"open\n"
        line = f"the store's folder {folder} is in use by process {other.pid}"
        assert locked_by(folder) == line
        with pytest.raises(StoreUnavailable, match=line):
            Engine.open(folder)
        with pytest.raises(StoreUnavailable, match=line):
            open_folder(folder)
        other.kill()
    assert locked_by(folder) is None
    engine = Engine.open(folder)
    engine.close()


def test_a_second_folder_in_one_process_is_refused_until_the_first_is_closed(tmp_path):
    """The engine's own limit, in one line; one folder after another is fine."""
    first = Engine.open(tmp_path / "a")
    with pytest.raises(StoreUnavailable, match="already initialized"):
        Engine.open(tmp_path / "b")
    first.close()
    second = Engine.open(tmp_path / "b")
    assert query(second, "SELECT 1") == b"1\n"
    second.close()


def test_without_chdb_the_extra_is_named(tmp_path, monkeypatch):
    """By both ways to open a folder."""
    monkeypatch.setitem(sys.modules, "chdb", None)
    for name in ("_chdbclient", "_backend.chdb_backend"):
        monkeypatch.delitem(sys.modules, f"clickhouse_connect.driver.{name}", raising=False)
    for opening in (lambda: Engine.open(tmp_path), lambda: open_folder(tmp_path)):
        with pytest.raises((Misconfigured, StoreUnavailable)) as missing:
            opening()
        assert str(missing.value) == EXTRA
    assert "pip install 'shadow-compare[embedded]'" in EXTRA


def test_rows_outlive_the_process_that_wrote_them_even_if_it_was_killed(tmp_path):
    """What an insert returned from is there after kill -9."""
    folder = tmp_path / "store"
    script = (
        "import os, sys; from pathlib import Path; from collector.embedded import EmbeddedStore\n"
        "store = EmbeddedStore.open(Path(sys.argv[1]), ('127.0.0.1', 0), 'shadow', 'default', '')\n"
        "client = store.client()\n"
        "client.command('CREATE TABLE t (a UInt32) ENGINE = MergeTree ORDER BY a')\n"
        "for i in range(20): client.insert('t', [[i]], column_names=['a'])\n"
        "os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", script, folder], check=False).returncode == -9
    client = open_folder(folder)
    assert client.query("SELECT count(), sum(a) FROM t").result_rows == [(20, 190)]
    client.close()


def test_handles_share_nothing_but_the_data(engine):
    """Database, settings and parameters are the handle's; a table is everyone's."""
    query(engine, "CREATE DATABASE other")
    frame = Frame("other", {"max_threads": "1"}, {"p": "5"})
    assert (
        query(engine, "SELECT currentDatabase(), getSetting('max_threads'), {p:UInt8}", frame)
        == b"other\t1\t5\n"
    )
    assert query(engine, "SELECT currentDatabase()") == b"default\n"
    with pytest.raises(EngineError, match="UNKNOWN_QUERY_PARAMETER"):
        query(engine, "SELECT {p:UInt8}")
    query(engine, "CREATE TABLE t (a UInt8) ENGINE = Memory", frame)
    assert query(engine, "EXISTS TABLE other.t") == b"1\n"


def test_statements_run_side_by_side_and_without_the_interpreters_lock(engine):
    """Each of three waits until all three run: one after another, none would ever end."""
    met = "SELECT count() FROM system.processes WHERE query LIKE '%sleepEachRow%' AND query NOT LIKE '%processes%'"
    slow = "SELECT sleepEachRow(0.3) FROM numbers(10) SETTINGS max_block_size = 1"
    marks = [Frame() for _ in range(3)]
    ends = []

    def run(frame):
        with pytest.raises(EngineError) as stopped:
            query(engine, slow, frame)
        ends.append(stopped.value.code)

    threads = [threading.Thread(target=run, args=(mark,)) for mark in marks]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 20
    while query(engine, met) != b"3\n":
        assert time.monotonic() < deadline
    for mark in marks:
        engine.stop_reading(mark.mark)
    for thread in threads:
        thread.join()
    assert ends == [394, 394, 394]


def test_stopping_leaves_what_writes(engine):
    """A mark's insert goes on to its end, though its client is gone."""
    query(engine, "CREATE TABLE default.w (a UInt64) ENGINE = MergeTree ORDER BY a")
    frame = Frame()
    slow = "INSERT INTO default.w SELECT number + sleepEachRow(0.1) FROM numbers(5) SETTINGS max_block_size = 1"
    insert = threading.Thread(target=query, args=(engine, slow, frame))
    insert.start()
    while (
        query(engine, "SELECT count() FROM system.processes WHERE query_kind = 'Insert'") != b"1\n"
    ):
        pass
    engine.stop_reading(frame.mark)
    insert.join()
    assert query(engine, "SELECT count() FROM default.w") == b"5\n"


def test_the_interface_serves_within_its_context(engine):
    """`serving` for a loop of one's own: the port answers, then is free."""

    def ping(address):
        with urlopen(f"http://{address[0]}:{address[1]}/ping", timeout=5) as answer:
            return answer.read()

    async def scenario():
        async with serving(engine, "127.0.0.1", 0, Access()) as address:
            assert await asyncio.to_thread(ping, address) == b"Ok.\n"
        return address

    address = asyncio.run(scenario())
    with pytest.raises(OSError, match="refused"):
        ping(address)


def test_an_address_that_is_taken_is_named_and_the_folder_let_go(tmp_path):
    """One line, and nothing left open."""
    folder = tmp_path / "store"
    with EmbeddedStore.open(folder, LOCAL, "shadow", "default", "") as store:
        port = int(store.url.rpartition(":")[2])
        with pytest.raises(Misconfigured, match=f"store.listen: 127.0.0.1:{port}: "):
            EmbeddedStore.open(folder, ("127.0.0.1", port), "shadow", "default", "")
        with urlopen(f"{store.url}/ping", timeout=5) as answer:
            assert answer.read() == b"Ok.\n"
    assert locked_by(folder) is None


def test_closing_stops_a_query_that_runs_and_closes_clients_that_were_forgotten(tmp_path):
    """Ctrl-C does not wait for a dashboard's query, and the folder is free afterwards."""
    store = EmbeddedStore.open(tmp_path / "a", LOCAL, "shadow", "default", "")
    forgotten = store.client()
    client = connect(StoreSettings(store.url))
    failed = threading.Event()

    def run():
        with pytest.raises(Exception, match=r"."):
            client.query("SELECT count() FROM numbers(1e15) WHERE NOT ignore('forever')")
        failed.set()

    thread = threading.Thread(target=run)
    thread.start()
    while not forgotten.command(
        "SELECT count() FROM system.processes WHERE query LIKE '%forever%' AND query NOT LIKE '%processes%'"
    ):
        pass
    store.close()
    assert failed.wait(10)
    thread.join()
    client.close()
    Engine.open(tmp_path / "b").close()


def test_the_engines_errors_are_read_from_its_text():
    """Codes, texts and statuses; what has none is the engine's own failure."""
    error = engine_error(
        RuntimeError("Streaming failed: Code: 47. DB::Exception: x (UNKNOWN_IDENTIFIER)")
    )
    assert (error.code, error.status, error.text) == (
        47,
        404,
        "Code: 47. DB::Exception: x (UNKNOWN_IDENTIFIER)",
    )
    assert (engine_error(RuntimeError("odd")).code, status_of(999_999)) == (1001, 500)


def test_our_own_folder_is_not_taken(engine):
    """The folder that this process holds is not reported as another's."""
    assert locked_by(Path(engine.path)) is None
