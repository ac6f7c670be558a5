"""Exactly once, to the report: whatever is delivered twice, whoever is killed, its figures stand."""

import os
import random
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from collecting.answers import DONE, event, finish, marks_of, text, usage
from collecting.records import accounting, exchange

from analysis.answers import report
from analysis.look import Memory, look
from analysis.policy import Policy
from analysis.settings import Settings
from collector.batch import BatchLimits
from collector.collector import Collector
from collector.dead_letters import DeadLetters
from collector.embedded import EmbeddedStore
from collector.migrate import Retention, migrate
from collector.store import connect
from collector.writer import Writer
from shadow.exchange import Count, encode
from shadow.stream import Message
from shadow.stream.embedded import EmbeddedConsumer, EmbeddedProducer

S = 10**9
T0 = 1_790_000_000 * S
KEEP = Retention(10**9, 10**9)
ARMS = ("primary", "control", "fp8")
PAIRS = 120
KILLED = str(Path(__file__).parent / "killed.py")
POLICY = {
    "blocks": {"by": "time", "every": "1s", "min_pairs": 10, "planned": 20},
    "min_span": "0s",
    "warm_up": {"pairs": 5},
}
SETTINGS = Settings(
    experiment="e", config_hash="c", candidates=("fp8",), control="control",
    comparisons={"fp8": "e-fp8", "control": "e-control"}, policy=Policy.model_validate(POLICY),
)  # fmt: skip
STEPS = [
    f"{kind},{when}"
    for kind in ("exchanges", "bodies", "dead_letters", "commit")
    for when in ("before", "after")
]


def answer(rng, slower):
    pieces = [event(text(f"word{rng.randrange(3)}")) for _ in range(4)]
    pieces += [event(finish()), event(usage(4)), DONE]
    return b"".join(pieces), marks_of(pieces, ms=round(rng.uniform(8, 12) * slower))


def records():
    """120 requests of three arms over 12 s, their accounting, and two bad values among them."""
    rng, sequence, made = random.Random(7), 0, []
    for number in range(PAIRS):
        arrived = T0 + number * S // 10
        for arm in ARMS:
            sequence += 1
            body, marks = answer(rng, 1.2 if arm == "fp8" else 1.0)
            role = {"fp8": "candidate"}.get(arm, arm)
            made.append(
                encode(exchange(
                    pair_id=f"p{number}", arm=arm, role=role, sequence=sequence, arrived_at=arrived,
                    started_at=arrived, body=body, marks=marks, request=b"{}" if arm == "primary" else None,
                ))
            )  # fmt: skip
        if number % 10 == 9:
            made.append(books(number, sequence))
        if number % 50 == 20:
            made.append(b"no record %d" % number)
    return [*made, books(PAIRS + 50, sequence, number=PAIRS, final=True)]


def books(tenths, sequence, number=None, *, final=False):
    number = tenths + 1 if number is None else number
    at = T0 + (tenths + 1) * S // 10
    counts = [
        Count(arm=arm, counter=name, value=number)
        for arm in ARMS
        for name in ("eligible", "sampled", "captured")
    ]
    return encode(accounting(
        sequence=tenths + 1, at=at, high_sequence=sequence, final=final, low_water=None if final else at, counts=counts,
    ))  # fmt: skip


RECORDS = records()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exact")
    with EmbeddedStore.open(folder, ("127.0.0.1", 0), "shadow", "default", "") as opened:
        yield opened


@pytest.fixture
def database(store, request):
    """A client on a database of the test's own, over HTTP as to any server."""
    name = f"d{abs(hash(request.node.name))}"
    with closing(connect(replace(store.settings, database=None))) as client:
        migrate(client, name, KEEP)
        yield client


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    """The records in an embedded log; each group reads them from the start."""
    folder = tmp_path_factory.mktemp("stream")
    with closing(EmbeddedProducer(folder, "w0")) as producer:
        producer.append([Message(b"k", value) for value in RECORDS])
    return folder


def collect(client, folder, group, records=50):
    with closing(EmbeddedConsumer(folder, group)) as consumer:
        writer = Writer(client)
        limits = BatchLimits(records=records, age_s=3600.0)
        Collector(consumer, writer, DeadLetters(writer), "text", limits).run(lambda: True)


def figures(client):
    """The whole report, the windows and pairs it was made of, and what became dead letters."""
    look(client, SETTINGS, Memory(), T0 + 40 * S, whole=True)
    rows = [
        client.query(f"SELECT * EXCEPT (version) FROM {table} FINAL ORDER BY ALL").result_rows
        for table in (
            "exchanges",
            "bodies",
            "accounting",
            "workers",
            "pairs",
            "windows",
            "window_totals",
        )
    ]
    letters = client.query("SELECT source, value FROM dead_letters ORDER BY source").result_rows
    return report(client, SETTINGS), rows, letters


@pytest.fixture(scope="module")
def right(store, stream):
    """What one collector makes of the stream when nothing happens to it."""
    with closing(connect(replace(store.settings, database=None))) as client:
        migrate(client, "undisturbed", KEEP)
        collect(client, stream, "undisturbed")
        found = figures(client)
    document, _, letters = found
    arms = document["accounting"]["arms"]
    assert all(arms[name]["captured"] == PAIRS for name in ARMS if name in arms)
    assert document["candidates"]["fp8"]["pairs"]["complete"] == PAIRS - 5
    assert document["candidates"]["fp8"]["coverage"] == 1.0
    assert [value for _, value in letters] == ["no record 20", "no record 70"]
    return found


@pytest.mark.parametrize("records", [50, 17])
def test_the_same_stream_delivered_twice_leaves_every_figure(database, right, stream, records):
    """All of it again, to a collector that knows of no offset, in the same batches (whose tokens the
    store knows) and in others (whose rows replace themselves): the same report, to the last figure;
    the analysis, which looked in between, has nothing to rewrite."""
    collect(database, stream, f"first {records}")
    assert figures(database) == right
    versions = "SELECT window, reference_arm, version FROM window_totals FINAL ORDER BY ALL"
    before = database.query(versions).result_rows
    collect(database, stream, f"again {records}", records)
    document, rows, letters = figures(database)
    assert (document, rows) == right[:2]
    assert database.query(versions).result_rows == before
    assert set(letters) == set(right[2])
    if records == 50:
        assert letters == right[2]


@pytest.mark.whole
def test_a_collector_killed_at_every_step_leaves_every_figure(store, database, right, stream):
    """kill -9 of a real process before and after each insert, the dead letters and the commit, each
    followed by a new process that begins at the committed offsets: the report of a quiet run."""
    for step in STEPS:
        argv = [sys.executable, KILLED, str(stream), store.url, database.database, step]
        secret = os.environ | {"STORE_SECRET": store.settings.password}
        died = subprocess.run(argv, capture_output=True, timeout=60, check=False, env=secret)
        assert died.returncode == -9, (step, died.stderr.decode())
    collect(database, stream, "killed")
    assert figures(database) == right
