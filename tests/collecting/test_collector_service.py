"""`shadow collect` as a process: what is on the stream is in the store exactly once, whatever dies."""

import os
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from collecting.answers import DONE, event, finish, text, usage
from collecting.records import accounting, exchange

from collector.folder import unusable
from collector.service import run
from collector.settings import Embedded, Settings
from collector.status import Status
from collector.store import StoreSettings, connect
from collector.store_errors import StoreError, StoreUnavailable, store_errors
from shadow.exchange import encode
from shadow.stream import Message, StreamUnavailable
from shadow.stream.embedded import EmbeddedProducer

RUN = """
import sys
from pathlib import Path
from collector.batch import BatchLimits
from collector.service import run
from collector.settings import Embedded, Settings
folder, port = Path(sys.argv[1]), int(sys.argv[2])
sys.exit(run(Settings(
    stream=folder / "stream", store=Embedded(folder / "store", ("127.0.0.1", port)), retention_bodies_s=7e7, retention_measures_s=7e7, capture="text",
    batch=BatchLimits(records=40, age_s=0.2), bad_records=int(sys.argv[3]),
)))
"""
BODY = b"".join(event(each) for each in (text("Hi"), finish(), usage(1))) + DONE


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(folder, port, bad_records=50):
    argv = [sys.executable, "-c", RUN, str(folder), str(port), str(bad_records)]
    return subprocess.Popen(argv, stderr=subprocess.PIPE, start_new_session=True)


@contextmanager
def collecting(folder):
    """A running collector, and a question of its store that waits for an answer."""
    port = free_port()
    process = start(folder, port)

    def ask(query, wanted):
        end = time.monotonic() + 30
        while True:
            try:
                with (
                    store_errors(),
                    closing(connect(StoreSettings(f"http://127.0.0.1:{port}"))) as client,
                ):
                    if wanted(rows := client.query(query).result_rows):
                        return rows
            except StoreError as error:
                rows = str(error)
            assert process.poll() is None, process.stderr.read().decode()
            assert time.monotonic() < end, rows
            time.sleep(0.05)

    try:
        yield process, ask
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def produce(folder, numbers, *more):
    values = [
        encode(exchange(pair_id=f"p{n}", sequence=n, arrived_at=time.time_ns(), body=BODY))
        for n in numbers
    ]
    with closing(EmbeddedProducer(folder / "stream", "w0")) as producer:
        for value in (*values, *more):
            producer.append([Message(b"k", value)])


COUNTS = "SELECT count(), countIf(outcome = 'complete'), uniqExact(pair_id) FROM exchanges FINAL"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "stream").mkdir()
    return tmp_path


def test_from_the_stream_into_the_store(folder):
    """Rows, bodies, counters and dead letters; SIGTERM drains and exits 0; a kill -9 in the middle
    of a load loses and doubles nothing; the collector runs below the proxy's priority."""
    produce(folder, range(1, 101), b"rubbish", encode(accounting(at=time.time_ns())))
    with collecting(folder) as (process, ask):
        assert ask(COUNTS, lambda rows: rows[0][0] == 100) == [(100, 100, 100)]
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == 10
        (letter,) = ask("SELECT source, reason, value FROM dead_letters", len)
        assert letter[0].startswith("w0:")
        assert (letter[1].split(":")[0], letter[2]) == ("record", "rubbish")
        ask(
            "SELECT value FROM accounting FINAL WHERE counter = 'eligible'",
            lambda rows: rows == [(5,)],
        )
        ask(
            "SELECT high_sequence, low_water, final FROM workers FINAL",
            lambda rows: rows == [(9, None, 1)],
        )
        answers = "SELECT answer, raw, length(marks) FROM bodies FINAL WHERE pair_id = 'p7'"
        ask(
            answers,
            lambda rows: rows == [('[{"index":0,"text":"Hi","finish_reason":"stop"}]', "", 1)],
        )
        produce(folder, range(101, 401))
        ask(COUNTS, lambda rows: rows[0][0] > 150)
        process.kill()
    produce(folder, range(401, 451))
    with collecting(folder) as (process, ask):
        assert ask(COUNTS, lambda rows: rows[0][0] >= 450) == [(450, 450, 450)]
        produce(folder, range(451, 471))
        begin = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0, process.stderr.read().decode()
        assert time.monotonic() - begin < 15
    with collecting(folder) as (_, ask):  # what came just before the drain was drained
        assert ask(COUNTS, lambda rows: rows[0][0] >= 470) == [(470, 470, 470)]
        assert ask("SELECT count() FROM dead_letters", len) == [(1,)]


def test_a_second_collector_says_who_holds_the_place(folder):
    """One line on stderr, exit 1."""
    with collecting(folder) as (_, ask):
        ask(COUNTS, len)
        second = start(folder, free_port())
        assert second.wait(30) == 75
        message = second.stderr.read().decode()
        second.stderr.close()
        assert message.startswith("shadow collect: ")
        assert message.count("\n") == 1


def test_a_stream_of_rubbish_is_one_clear_line(folder):
    """Status 75; how many, where, why, and which key decides."""
    produce(folder, range(1, 3), *[b"rubbish"] * 9)
    process = start(folder, free_port(), 7)
    _, said = process.communicate(timeout=30)
    (line,) = said.decode().splitlines()
    assert process.returncode == 75
    assert line.startswith(
        "shadow collect: 7 of the last 9 records cannot be stored, the last at w0:"
    )
    assert "limits.bad_records: 0 lets them become dead letters" in line


def lengths(*messages):
    return b"".join(struct.pack(">II", 1, len(value)) + b"k" + value for value in messages)


def test_a_damaged_log_is_dead_letters_and_goes_on(folder):
    """Garbage, and a batch that is cut short, in the embedded log's file: each is a letter, with the
    exchange that it was where that can be told, and what comes behind is stored."""
    produce(folder, range(1, 11))
    exchanges = [
        encode(exchange(pair_id=f"p{n}", sequence=n, arrived_at=time.time_ns(), body=BODY))
        for n in (11, 12, 13)
    ]
    garbage = (b'{"record":"exchange"', b"\xff\xfe", b"[" * 100_000, b"")
    with (
        closing(sqlite3.connect(folder / "stream" / "w0.sqlite3", isolation_level=None)) as db,
        closing(EmbeddedProducer(folder / "stream", "w0")) as producer,
    ):
        put = "INSERT INTO batches SELECT max(first + count), ?, ?, ? FROM batches"
        db.execute(put, (4, time.time_ns(), lengths(*garbage)))
        db.execute(put, (2, time.time_ns(), lengths(*exchanges[:2])[:-100]))
        producer._next += 6
        producer.append([Message(b"k", exchanges[2])])
    with collecting(folder) as (process, ask):
        ask(COUNTS, lambda rows: rows == [(12, 12, 12)])
        letters = ask(
            "SELECT reason, worker, sequence FROM dead_letters", lambda rows: len(rows) > 4
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert sorted((worker, sequence) for _, worker, sequence in letters) == [("", 0)] * 4 + [
        ("w", 12)
    ]
    assert next(reason for reason, worker, _ in letters if worker).startswith(
        "a damaged batch of 2"
    )


def unusable_folders(folder):
    """Name → the folder that is made unusable, and what is said of it."""
    (folder / "file").write_text("x")
    return {
        "a file": (folder / "file", "it is a file"),
        "below a file": (folder / "file" / "store", "Not a directory"),
        "where nobody writes": (Path("/proc/nowhere/store"), "No such file"),
    }


@pytest.mark.parametrize("part", ["store", "stream"])
@pytest.mark.parametrize("kind", ["a file", "below a file", "where nobody writes"])
def test_a_folder_that_cannot_be_used_is_one_line(folder, capsys, monkeypatch, part, kind):
    """Named, with what is the matter; status 2, at which `shadow up` ends: no try mends it."""
    monkeypatch.setattr("os.nice", lambda _by: None)  # of this process
    bad, said = unusable_folders(folder)[kind]
    places = {"store": folder / "store", "stream": folder / "stream"} | {part: bad}
    settings = Settings(
        places["stream"], Embedded(places["store"], ("127.0.0.1", 0)), 1.0, 1.0, "text"
    )
    assert run(settings) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"shadow collect: {part}.embedded: the folder {bad}: ")
    assert said in line


def test_a_folder_that_this_user_may_not_write_is_said(folder, monkeypatch):
    """Whoever runs the tests may write everywhere, so the system's answer is put in its place."""
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert unusable(folder) == f"the folder {folder}: this user may not read and write it"


def test_a_taken_address_and_a_database_of_the_engine_are_one_line(folder, capsys, monkeypatch):
    """Status 2, naming the key, what is the matter and the way out; the folder is let go."""
    monkeypatch.setattr("os.nice", lambda _by: None)  # of this process
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = taken.getsockname()
        for address, database, said in (
            (place, "shadow", f"store.listen: 127.0.0.1:{place[1]}: Address already in use; stop"),
            (("192.0.2.1", 0), "shadow", "store.listen: 192.0.2.1:0: Cannot assign requested"),
            (("127.0.0.1", 0), "default", "store.database: default is the engine's own"),
        ):
            store = Embedded(folder / "store", address, database)
            assert run(Settings(folder / "stream", store, 1.0, 1.0, "text")) == 2
            (line,) = capsys.readouterr().err.splitlines()
            assert line.startswith(f"shadow collect: {said}")


def test_what_is_away_is_said_once_with_its_way_out_and_so_is_its_end(monkeypatch):
    """The log and readiness name which end it is, and one line tells that it is over."""
    lines = []

    def say(event: str, **_: object) -> None:
        lines.append(event)

    monkeypatch.setattr("collector.status._log", SimpleNamespace(warning=say, info=say))
    status = Status()
    for _ in range(3):
        status.told(StreamUnavailable("kafka at a:1: there is no topic x: create it"))
    assert status.reason == "the stream is away: kafka at a:1: there is no topic x: create it"
    status.told(None)
    status.told(StoreUnavailable("nobody listens at http://b:1"))
    assert status.reason == "the store is away: nobody listens at http://b:1"
    status.told(None)
    assert status.reason is None
    one, other = "stream away: the collector waits", "store away: the collector waits"
    assert lines == [one, f"{one}: over", other, f"{other}: over"]


@pytest.mark.parametrize("reply", [b"hello", b"Ok.\n"], ids=["a stranger", "a wrong password"])
def test_a_store_that_no_waiting_mends_is_one_line(folder, capsys, monkeypatch, reply):
    """Somebody else at the address, or ClickHouse with another password: status 2."""
    monkeypatch.setattr("os.nice", lambda _by: None)  # of this process

    class Server(BaseHTTPRequestHandler):
        def answer(self):
            ping = self.path.endswith("/ping")
            body = reply if ping else b"Code: 516. DB::Exception: default: Authentication failed"
            self.send_response(200 if ping else 403)
            self.send_header("Content-Length", str(len(body)))
            if not ping:
                self.send_header("X-ClickHouse-Exception-Code", "516")
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = answer  # noqa: N815 the server's names

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        store = StoreSettings(f"http://127.0.0.1:{server.server_port}", password="x")
        status = run(Settings(folder / "stream", store, 1.0, 1.0, "text"))
        server.shutdown()
        thread.join()
    assert status == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("shadow collect: store.clickhouse: ")
