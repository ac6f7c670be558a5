"""A purge by subject: what is gone, what stays, and that it stays gone when delivered again."""

import itertools

import pytest
from collecting.answers import DONE, event, finish, text, usage
from collecting.records import exchange

from collector import forgetful
from collector.batch import BatchLimits
from collector.collector import Collector
from collector.dead_letters import DeadLetters
from collector.forgetful import ForgetfulWriter
from collector.migrate import Retention, migrate
from collector.purge import Found, held, mark_of, purge
from collector.tombstones import PURGED, Purged, purges
from shadow.exchange import encode
from shadow.stream import Delivered

KEEP = Retention(10**9, 10**9)
NOW = 1_790_000_000 * 10**9
ME, YOU = "a" * 32, "b" * 32
BODY = b"".join(event(each) for each in (text("Dear Ada,"), finish(), usage(1))) + DONE
_names = itertools.count()


@pytest.fixture
def database(http_client):
    """Our tables, for one test, as a purge reaches them; the client is put back afterwards."""
    client = http_client
    before = client.database
    name = f"p{next(_names)}"
    migrate(client, name, KEEP)
    yield client
    client.database = before
    client.command(f"DROP DATABASE IF EXISTS {name} SYNC")


def record(number, subject=ME, arm="primary", **more):
    facts = {
        "pair_id": f"p{number}", "sequence": number + 1, "arrived_at": NOW + number, "started_at": NOW + number,
        "arm": arm, "subject": subject, "body": BODY, "request": b'{"prompt": "I am Ada"}',
    }  # fmt: skip
    return encode(exchange(**facts | more))


RECORDS = [
    record(0),
    record(1, YOU),
    record(2, arm="fp8", request=None, transport="reset", error="reset while Ada was read"),
    record(3, None),
    b'{"record":"exchange","subject":"' + ME.encode() + b'","request":"I am Ada, cut',
    b"another's rubbish",
]


class Stream:
    """The same records, as often as somebody asks for them from the start."""

    def __init__(self, records):
        self._records, self.committed = records, {}

    def on_revoked(self, _callback):
        self.at = 0

    def poll(self, max_records, _timeout):
        some = self._records[self.at : self.at + max_records]
        first, self.at = self.at, self.at + len(some)
        return [Delivered("0", first + n, b"I am Ada's key", value) for n, value in enumerate(some)]

    def commit(self, offsets):
        self.committed |= offsets


def deliver(client, records=RECORDS, size=100, **named):
    """From the stream into the store, in batches of `size`."""
    stream = Stream(records)
    writer = ForgetfulWriter(client, **named)
    limits = BatchLimits(records=size, age_s=3600.0)
    loop = Collector(stream, writer, DeadLetters(writer), "full", limits, now_ns=lambda: NOW)
    loop.run(lambda: True)
    assert stream.committed == {"0": len(records)}


def everything(client):
    """All that the store's tables hold, as text."""
    tables = [row[0] for row in client.query("SHOW TABLES").result_rows]
    return {
        name: client.raw_query(f"SELECT * FROM {name} FORMAT JSONEachRow").decode()
        if name != "dead_letters"
        else client.raw_query("SELECT * FROM dead_letters FORMAT TSV").decode()
        for name in tables
    }


def rows(client, query):
    return client.query(query).result_rows


def test_texts_go_and_measures_stay(database):
    """Bodies, the error that quotes the request and the dead letter of this subject are gone from
    every table; other people's rows and all measures are there."""
    deliver(database)
    found = purge(database, ME, NOW + 10, measures=False)
    assert found == Found(bodies=2, dead_letters=1, exchanges=0, errors=1)
    assert rows(database, "SELECT DISTINCT pair_id FROM bodies ORDER BY pair_id") == [
        ("p1",),
        ("p3",),
    ]
    assert rows(database, "SELECT source FROM dead_letters") == [("0:5",)]
    measured = "SELECT count(), countIf(ttft_any_ms IS NOT NULL), countIf(error != '') FROM exchanges FINAL"
    assert rows(database, measured) == [(4, 4, 0)]
    for name, held_text in everything(database).items():
        mine = [
            line for line in held_text.splitlines() if ME in line or "p0" in line or "p2" in line
        ]
        assert not any("Ada" in line for line in mine), name


@pytest.mark.parametrize("size", [1, 100])
def test_what_was_purged_stays_purged_when_delivered_again(database, size):
    """The whole stream once more, in batches of any size, and once more: nothing of it comes back;
    others' rows are there once."""
    deliver(database)
    purge(database, ME, NOW + 10, measures=False)
    before = rows(database, "SELECT * FROM exchanges FINAL ORDER BY pair_id")
    for _ in range(2):
        deliver(database, size=size)
    assert not held(database, ME, Purged(NOW + 10))
    assert rows(database, "SELECT DISTINCT pair_id FROM bodies ORDER BY pair_id") == [
        ("p1",),
        ("p3",),
    ]
    assert rows(database, "SELECT * FROM exchanges FINAL ORDER BY pair_id") == before
    for source, value, key in rows(database, "SELECT source, value, key FROM dead_letters"):
        assert source == "0:5" or (value, key) == ("", "")


def test_it_stays_purged_though_nothing_had_been_stored(database):
    """Records that were purged while they waited in the stream come without their text at once."""
    purge(database, ME, NOW + 10, measures=False)
    deliver(database)
    assert rows(database, "SELECT DISTINCT pair_id FROM bodies ORDER BY pair_id") == [
        ("p1",),
        ("p3",),
    ]
    assert rows(database, "SELECT count() FROM exchanges FINAL") == [(4,)]
    assert rows(database, "SELECT reason, value FROM dead_letters WHERE source = '0:4'") == [
        (PURGED, "")
    ]


def test_a_later_request_of_the_same_subject_is_a_new_one(database):
    """A tombstone holds for what had arrived; and a later purge reaches further."""
    deliver(database)
    purge(database, ME, NOW + 1, measures=False)
    assert {row[0] for row in rows(database, "SELECT pair_id FROM bodies")} == {"p1", "p2", "p3"}
    deliver(database, [record(7)])
    assert ("p7",) in rows(database, "SELECT pair_id FROM bodies")
    purge(database, ME, NOW + 7, measures=False)
    assert {row[0] for row in rows(database, "SELECT pair_id FROM bodies")} == {"p1", "p3"}
    assert purges(database) == {ME: Purged(NOW + 7, 0)}


def pair(client, number, version=1):
    client.insert(
        "pairs", [["e", NOW + number, f"p{number}", "fp8", "primary", 5.0, version]],
        column_names=["experiment", "arrived_at", "pair_id", "arm", "reference_arm", "e2e_ms", "version"],
    )  # fmt: skip


MEASURES = "ttft_any_ms, e2e_ms, itl_max_ms, failure, text_hash, prompt_tokens, output_tokens, model, conversation, status, error, subject"


@pytest.mark.parametrize("again", [False, True])
def test_with_all_measures_go_too_and_the_books_balance(database, again):
    """No figure of the subject is left, in exchanges or pairs, also after redelivery; sequence
    numbers are all there, so that nothing of it counts as lost or holds a window open."""
    deliver(database)
    for number in (0, 1):
        pair(database, number)
    sequences = "SELECT groupBitmap(sequence), count() FROM exchanges FINAL"
    before = rows(database, sequences)
    found = purge(database, ME, NOW + 10, measures=True)
    assert (found.bodies, found.exchanges) == (2, 2)
    if again:
        deliver(database)
    assert rows(database, sequences) == before == [(4, 4)]
    assert rows(database, "SELECT pair_id FROM pairs") == [("p1",)]
    left = rows(
        database,
        f"SELECT pair_id, outcome, {MEASURES} FROM exchanges FINAL WHERE outcome = '{PURGED}' ORDER BY pair_id",
    )
    nothing = (None, None, None, None, None, None, None, "", "", None, "", "")
    assert left == [("p0", PURGED, *nothing), ("p2", PURGED, *nothing)]
    assert rows(database, "SELECT count() FROM exchanges FINAL WHERE e2e_ms IS NOT NULL") == [(2,)]
    assert not any(
        ME in held_text for name, held_text in everything(database).items() if name != "purges"
    )


def test_a_purge_can_be_done_again(database):
    """After an interruption anywhere, or just so: it finds what is left, then nothing."""
    deliver(database)
    assert purge(database, ME, NOW + 10, measures=True)
    again = purge(database, ME, NOW + 10, measures=True)
    assert not again
    assert again == Found(0, 0, 0, 0)


@pytest.mark.parametrize("measures", [False, True])
@pytest.mark.parametrize("at_look", range(6))
def test_a_purge_at_any_moment_of_a_delivery_is_heeded(database, monkeypatch, at_look, measures):
    """The tombstone comes, and deletes, right after the collector has read tombstones: before or
    after it inserts exchanges, bodies, dead letters. What it then inserts, or has inserted, is gone
    before its offsets are committed."""
    looks = itertools.count()

    def look(client):
        found = purges(client)
        if next(looks) == at_look:
            purge(database, ME, NOW + 10, measures=measures)
        return found

    monkeypatch.setattr(forgetful, "purges", look)
    deliver(database)
    assert next(looks) == 6  # before and after each of the three inserts
    assert not held(database, ME, Purged(NOW + 10, NOW + 10 if measures else 0))
    assert rows(database, "SELECT DISTINCT pair_id FROM bodies ORDER BY pair_id") == [
        ("p1",),
        ("p3",),
    ]
    assert rows(database, "SELECT count() FROM exchanges FINAL") == [(4,)]


def test_a_batch_without_subjects_asks_nothing_more(database):
    """Where no header is configured, the tombstones cost nothing."""

    class Asked:
        def __init__(self, client):
            self.client, self.queries = client, 0

        def query(self, *args, **named):
            self.queries += 1
            return self.client.query(*args, **named)

        def __getattr__(self, name):
            return getattr(self.client, name)

    asked = Asked(database)
    deliver(asked, [record(3, None), record(4, None)])
    assert asked.queries == 0
    assert rows(database, "SELECT count() FROM bodies FINAL") == [(2,)]


def test_a_refused_row_keeps_its_place_among_those_left_out(database):
    """The index of a refused row is the batch's, though rows before it were left out."""
    purge(database, ME, NOW + 10, measures=False)
    columns = ["experiment", "arrived_at", "pair_id", "subject", "replica"]
    batch = [
        ["e", NOW, "p0", ME, 0],
        ["e", NOW, "p1", YOU, 0],
        ["e", NOW, "p2", ME, 0],
        ["e", NOW, "p3", YOU, "bad"],
    ]
    refused = ForgetfulWriter(database).insert("bodies", columns, batch, "t")
    assert [each.index for each in refused] == [3]
    assert rows(database, "SELECT pair_id FROM bodies") == [("p1",)]


def test_the_mark_is_what_the_wire_says():
    """Dead letters are found by the bytes that a record of the subject holds."""
    assert mark_of(ME) in record(0)
    assert forgetful.named_in("dead_letters", ["value"], [[record(0)], [record(1, YOU)[:-40]]]) == {
        ME,
        YOU,
    }
    assert forgetful.named_in("dead_letters", ["value"], [[record(3, None)], [b""]]) == set()


def test_on_a_cluster_every_statement_reaches_all_servers(database):
    """Rows are changed in the local tables, on the whole cluster."""
    told = []

    class Told:
        def __getattr__(self, name):
            return getattr(database, name)

        def command(self, statement, **named):
            told.append((" ".join(statement.split()), named.get("settings")))

    deliver(database)
    purge(Told(), ME, NOW + 10, measures=True, cluster="c")
    altered = [
        (statement, settings) for statement, settings in told if statement.startswith("ALTER")
    ]
    assert len(altered) == 5
    for statement, settings in altered:
        assert "_local` ON CLUSTER 'c'" in statement
        assert settings == {"mutations_sync": 2}
