"""The loop loses nothing and doubles nothing, whatever fails at whatever moment."""

from dataclasses import dataclass, field, replace
from itertools import combinations

import pytest

from collector.bad_ratio import BadRatio, TooManyBadValues
from collector.batch import BatchLimits
from collector.collector import Collector
from collector.dead_letters import DeadLetters
from collector.patience import Backoff
from collector.writer import Refused
from shadow.exchange import Accounting, Count, Exchange, encode
from shadow.stream import Delivered, StreamUnavailable


class Crash(Exception):
    """The process dies here."""


@dataclass
class Faults:
    """Steps of the delivery are counted as they are made; some die before or after their effect."""

    planned: dict = field(default_factory=dict)  # number of the step → "before" | "after"
    made: int = 0
    kinds: list = field(default_factory=list)

    def step(self, kind, effect):
        number, self.made = self.made, self.made + 1
        self.kinds.append(kind)
        if self.planned.get(number) == "before":
            raise Crash(kind)
        result = effect()
        if self.planned.get(number) == "after":
            raise Crash(kind)
        return result


@dataclass
class MemoryStore:
    """Tables that replace by key and refuse a named row; dead letters only ever grow."""

    faults: Faults
    tables: dict = field(default_factory=dict)
    letters: list = field(default_factory=list)

    def insert(self, table, columns, rows, token):
        return self.faults.step(table, lambda: self._store(table, columns, rows, token))

    def _store(self, table, columns, rows, token):
        refused = []
        for at, values in enumerate(rows):
            row = dict(zip(columns, values, strict=True))
            if table == "dead_letters":  # a plain table: what is inserted twice stands twice
                self.letters.append(row)
            elif row.get("pair_id") == "refused" and table == "exchanges":
                refused.append(Refused(at, "a value out of its range"))
            else:
                key = (row.get("pair_id"), row.get("arm"), row.get("counter"), row.get("boot_id"))
                self.tables.setdefault(table, {})[key] = row
        return refused

    def known_letters(self, sources, since_ns):
        return frozenset(letter["source"] for letter in self.letters) & frozenset(sources)


class MemoryStream:
    """Partitions as lists; what was committed outlives a consumer."""

    def __init__(self, values, faults):
        self.values, self.faults = values, faults
        self.committed = dict.fromkeys(values, 0)

    def consumer(self):
        return MemoryConsumer(self)


class MemoryConsumer:
    def __init__(self, stream):
        self.stream, self.at = stream, dict(stream.committed)
        self.revoked = None

    def on_revoked(self, callback):
        self.revoked = callback

    def poll(self, max_records, timeout):
        taken = []
        for partition, values in self.stream.values.items():
            here = self.at.get(partition)
            if here is None:
                continue
            some = values[here : here + max_records - len(taken)]
            taken += [Delivered(partition, here + n, b"k", value) for n, value in enumerate(some)]
            self.at[partition] = here + len(some)
        return taken

    def commit(self, offsets):
        self.stream.faults.step("commit", lambda: self.stream.committed.update(offsets))

    def revoke(self, partition):
        self.revoked([partition])
        del self.at[partition]


def exchange(number, **changes):
    facts = {
        "experiment": "e", "config_hash": "c", "pair_id": f"p{number}", "arm": "primary", "role": "primary",
        "worker": "w", "boot_id": "b", "sequence": number + 1, "arrived_at": 1, "started_at": 1, "method": "POST",
        "status": 200, "path": "/v1/chat/completions", "transport": "complete", "marks": [(1_000_000, 2)],
        "body": b"{}", "captured_bytes": 2,
    }  # fmt: skip
    return encode(Exchange(**facts | changes))


def accounting(number):
    counts = [Count(arm="primary", counter="captured", value=number)]
    record = Accounting(
        experiment="e",
        config_hash="c",
        worker="w",
        boot_id="b",
        sequence=number,
        at=1,
        counts=counts,
    )
    return encode(record)


BAD = (b"\xff not a record", b'{"record":"exchange"}')
VALUES = {
    "0": [exchange(0), BAD[0], exchange(1), exchange(2, pair_id="refused"), exchange(3)],
    "1": [exchange(4), accounting(7), BAD[1], exchange(5)],
}
PAIRS = {"p0", "p1", "p3", "p4", "p5"}
DEAD = {"0:1": BAD[0], "0:3": VALUES["0"][3], "1:2": BAD[1]}


def collector(consumer, store, records, kind=Collector, **more):
    return kind(
        consumer, store, DeadLetters(store), "text", BatchLimits(records=records, age_s=3600.0),
        clock=lambda: 0.0, now_ns=lambda: 5, sleep=lambda _seconds: None, **more,
    )  # fmt: skip


def deliver(planned, records, kind=Collector, values=VALUES):
    """Run a collector over the whole stream, a new one after each crash; what came of it."""
    faults = Faults(dict(planned))
    stream, store = MemoryStream(values, faults), MemoryStore(faults)
    crashes = 0
    while True:
        rounds = iter([False] * 20 + [True])
        cut = (records + crashes - 1) % 7 + 1  # after a crash batches are cut otherwise
        try:
            collector(stream.consumer(), store, cut, kind).run(lambda: next(rounds))  # noqa: B023
        except Crash:
            crashes += 1
        else:
            return stream, store, faults, crashes


def wrong(stream, store):
    """What a delivery got wrong; nothing if it is exact."""
    letters = sorted((letter["source"], letter["value"]) for letter in store.letters)
    return [
        name
        for name, right in {
            "rows": {key[0] for key in store.tables["exchanges"]} == PAIRS,
            "counters": [row["value"] for row in store.tables["accounting"].values()] == [7],
            "workers": len(store.tables["workers"]) == 1,
            "dead letters": letters == sorted(DEAD.items()),
            "offsets": stream.committed == {"0": 5, "1": 4},
        }.items()
        if not right
    ]


def test_each_arm_s_tokenizer_counts():
    """What the settings carry reaches the rows."""
    body = b'{"choices":[{"index":0,"message":{"content":"Hi there"}}]}'
    headers = [("content-type", "application/json")]
    values = {"0": [exchange(0, body=body, headers=headers, marks=[(1, len(body))])]}
    faults = Faults()
    store = MemoryStore(faults)
    consumer = MemoryStream(values, faults).consumer()
    counting = collector(
        consumer, store, 1, count_tokens={"primary": lambda text: len(text.split())}
    )
    counting.step(0.0)
    (row,) = store.tables["exchanges"].values()
    assert (row["output_tokens"], row["token_source"]) == (2, "tokenizer")


def test_answers_that_could_not_all_be_read_are_counted():
    """By the status, for /metrics; a record that is none is a dead letter and not among them."""
    good = {"body": b"data: [DONE]\n\n", "headers": [("content-type", "text/event-stream")]}
    values = {"0": [exchange(0, body=b"\xff", path="/v1/completions"), exchange(1, **good), BAD[0]]}
    counting = collector(
        MemoryStream(values, faults := Faults()).consumer(), MemoryStore(faults), 9
    )
    counting.step(0.0)
    assert (counting.status.records_total, counting.status.unreadable_total) == (3, 1)


MODES = ("before", "after")


@pytest.mark.parametrize("records", range(1, 8))
def test_every_single_and_double_fault_is_survived_exactly(records):
    """A crash before or after each insert, dead-letter flush and commit, alone and in pairs, with
    restarts from the committed offsets: every row once, every bad value in dead letters."""
    *_, clean, crashes = deliver({}, records)
    assert crashes == 0
    assert {"exchanges", "bodies", "accounting", "workers", "dead_letters", "commit"} == set(
        clean.kinds
    )
    plans = [{step: mode} for step in range(clean.made) for mode in MODES]
    # a crash makes more steps: the second fault may strike anywhere in the longer run
    steps = range(clean.made + 6)
    pairs = combinations(steps, 2)
    plans += [{a: x, b: y} for a, b in pairs for x in MODES for y in MODES]
    fired = 0
    for plan in plans:
        stream, store, _, crashes = deliver(plan, records)
        assert wrong(stream, store) == [], plan
        fired += crashes
    assert fired > len(plans)


class CommitFirst(Collector):
    """The mutation: commit, then store."""

    def _store(self):
        if self._batch.records:
            self._commit(self._batch.offsets)
            self._insert(self._batch)
            self.dead_letters.flush()
        self._batch = type(self._batch)(self.limits)


class CommitBeforeLetters(Collector):
    """The other mutation: commit between the insert and the dead letters."""

    def _store(self):
        if self._batch.records:
            self._insert(self._batch)
            self._commit(self._batch.offsets)
            self.dead_letters.flush()
        self._batch = type(self._batch)(self.limits)


@pytest.mark.parametrize("mutation", [CommitFirst, CommitBeforeLetters])
def test_the_suite_has_teeth(mutation):
    """Another order of the three steps loses something under a single fault."""
    *_, clean, _ = deliver({}, 3, mutation)
    plans = [{step: mode} for step in range(clean.made) for mode in MODES]
    assert any(wrong(*deliver(plan, 3, mutation)[:2]) for plan in plans)


def test_dead_letters_are_stored_once_when_a_batch_is_delivered_again():
    """A crash between the dead letters and the commit redelivers the batch, cut otherwise."""
    *_, clean, _ = deliver({}, 9)
    for step in range(clean.made):
        _, store, _, _ = deliver({step: "after"}, 9)
        assert sorted(letter["source"] for letter in store.letters) == sorted(DEAD)


def test_a_revocation_stores_the_open_batch():
    """What was read of a partition is stored and committed before the partition goes; no later
    commit names it."""
    faults = Faults()
    stream, store = MemoryStream(VALUES, faults), MemoryStore(faults)
    consumer = stream.consumer()
    loop = collector(consumer, store, 100)
    loop.step(0.0)
    assert stream.committed == {"0": 0, "1": 0}
    consumer.revoke("0")
    assert stream.committed == {"0": 5, "1": 4}
    assert wrong(stream, store) == []
    stream.values = {**VALUES, "1": [*VALUES["1"], exchange(6)]}
    stream.committed.pop("0")  # another's now
    loop.run(lambda: True)
    assert stream.committed == {"1": 5}


def test_a_revocation_that_cannot_store_raises():
    """Then the process ends and the committed offsets decide; the batch is not kept quietly."""
    faults = Faults({0: "before"})
    stream, store = MemoryStream(VALUES, faults), MemoryStore(faults)
    consumer = stream.consumer()
    collector(consumer, store, 100).step(0.0)
    with pytest.raises(Crash):
        consumer.revoke("0")


class Flaky(MemoryConsumer):
    """The stream is away for some calls."""

    def __init__(self, stream, away):
        super().__init__(stream)
        self.away = away

    def poll(self, max_records, timeout):
        self._maybe()
        return super().poll(max_records, timeout)

    def commit(self, offsets):
        self._maybe()
        super().commit(offsets)

    def _maybe(self):
        if self.away:
            self.away -= 1
            raise StreamUnavailable("no broker")


def test_a_bad_world_is_waited_for_with_capped_backoff_then_raised():
    """Poll and commit are tried again; waits double up to the cap; beyond the limit it is raised."""
    waits, now = [], [0.0]

    def sleep(seconds):
        waits.append(seconds)
        now[0] += seconds

    faults = Faults()
    stream, store = MemoryStream(VALUES, faults), MemoryStore(faults)
    backoff = Backoff(first_s=1.0, cap_s=4.0, limit_s=20.0)

    def loop(away):
        return Collector(
            Flaky(stream, away), store, DeadLetters(store), "text", backoff=backoff,
            clock=lambda: now[0], sleep=sleep,
        )  # fmt: skip

    loop(5).run(lambda: True)
    assert waits == [1.0, 2.0, 4.0, 4.0, 4.0]
    assert wrong(stream, store) == []
    waits.clear()
    with pytest.raises(StreamUnavailable):
        loop(10**6).run(lambda: False)
    assert sum(waits) <= 20.0


def test_a_stream_of_rubbish_stops_the_collector():
    """A mistake in a deployment is not drained into dead letters: it stops, commits nothing new,
    and says what to look at."""
    faults = Faults()
    stream, store = MemoryStream({"0": [b"rubbish"] * 500}, faults), MemoryStore(faults)
    loop = collector(stream.consumer(), store, 10, ratio=BadRatio(most=0.5, window=100, least=30))
    with pytest.raises(TooManyBadValues, match="30 of the last 30 records cannot be stored"):
        loop.run(lambda: False)
    assert stream.committed == {"0": 20}
    assert len(store.letters) == 20


def test_where_nobody_wants_the_stop_rubbish_becomes_dead_letters():
    """`limits.bad_records: 0`: every one of them is kept with its reason, and the stream goes on."""
    faults = Faults()
    stream, store = MemoryStream({"0": [b"rubbish"] * 500}, faults), MemoryStore(faults)
    collector(stream.consumer(), store, 100, ratio=BadRatio(least=0)).run(lambda: True)
    assert (stream.committed, len(store.letters)) == ({"0": 500}, 500)


def test_refused_rows_count_as_bad_values():
    """Rows that the store refuses reach the same limit, before they are flushed as dead letters."""
    faults = Faults()
    values = {"0": [exchange(n, pair_id="refused") for n in range(100)]}
    stream, store = MemoryStream(values, faults), MemoryStore(faults)
    loop = collector(stream.consumer(), store, 100, ratio=BadRatio(most=0.4, window=200, least=10))
    with pytest.raises(TooManyBadValues, match="exchanges: a value out of its range"):
        loop.run(lambda: False)
    assert store.letters == []
    assert stream.committed == {"0": 0}


def test_records_without_rows_of_a_table_are_no_insert():
    """An idle worker counts nothing: its record moves the offset and the worker's row, no more."""
    idle = Accounting(
        experiment="e", config_hash="c", worker="w", boot_id="b", sequence=1, at=1, counts=[]
    )
    faults = Faults()
    stream, store = MemoryStream({"0": [encode(idle)]}, faults), MemoryStore(faults)
    collector(stream.consumer(), store, 5).run(lambda: True)
    assert faults.kinds == ["workers", "commit"]
    assert stream.committed == {"0": 1}


def test_a_stop_drains_what_the_stream_still_holds():
    """After the stop everything that is there is stored and committed, then the loop ends."""
    faults = Faults()
    values = {"0": [exchange(n) for n in range(1800)]}
    stream, store = MemoryStream(values, faults), MemoryStore(faults)
    loop = collector(stream.consumer(), store, 700)
    loop.run(lambda: True)
    assert stream.committed == {"0": 1800}
    assert loop.status.records_total == 1800


def test_damaged_bytes_are_letters_with_what_they_were():
    """Each record that began in them is a letter with its origin; the offset advances; a record
    whose other row was refused is stored, and so has none."""

    class Damaged(MemoryConsumer):
        def poll(self, max_records, timeout):
            taken = super().poll(max_records, timeout)
            return [
                replace(each, damage="cut short") if each.offset == 1 else each for each in taken
            ]

    rest = b"\0\0" + exchange(7) + b"\0\0" + exchange(8)[:300]
    faults = Faults()
    store = MemoryStore(faults)
    stream = MemoryStream({"0": [exchange(0), rest, exchange(2, pair_id="refused")]}, faults)
    loop = collector(Damaged(stream), store, 10)
    while loop.step(0.0):
        pass
    loop._store()
    names = ("source", "reason", "worker", "boot_id", "sequence")
    assert [tuple(letter[name] for name in names) for letter in store.letters] == [
        ("0:1", "cut short", "w", "b", 8),
        ("0:1", "cut short", "w", "b", 9),
        ("0:2", "exchanges: a value out of its range", "w", "b", 3),
    ]
    assert b"".join(letter["value"] for letter in store.letters[:2]) == rest
    assert stream.committed == {"0": 3}
