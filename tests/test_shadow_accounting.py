"""The ledger's books balance at any moment, from any thread, and over a killed process."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from contextlib import closing, contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.closing import Boot, live
from collector.names import misnamed
from shadow.exchange import DROP_REASONS, SKIP_REASONS
from shadow.locks import PlaceTaken
from shadow.publish.accounting import OPENING_NS, Ledger, tally


@contextmanager
def opened(folder, worker="0", *, published=True):
    ledger, dead = Ledger.open(folder, worker, "llama", "c0ffee")
    try:
        yield ledger, dead
    finally:
        ledger.close(published=published)


def counts(record):
    return {(c.arm, c.counter, c.reason): c.value for c in record.counts}


def value(values, arm, counter):
    return sum(v for (a, c, _), v in values.items() if (a, c) == (arm, counter))


def balances(record):
    """contracts.md: eligible = sampled + skipped; sampled = captured + dropped + pending + lost."""
    values = counts(record)
    return all(
        value(values, arm, "eligible")
        == value(values, arm, "sampled") + value(values, arm, "skipped")
        and value(values, arm, "sampled")
        == sum(value(values, arm, c) for c in ("captured", "dropped", "pending", "lost"))
        for arm in {arm for arm, _, _ in values}
    )


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("skipped"), st.sampled_from(SKIP_REASONS)),
        st.tuples(st.just("captured"), st.just("")),
        st.tuples(st.just("dropped"), st.sampled_from(DROP_REASONS)),
        st.tuples(st.just("pending"), st.just("")),
    ),
    max_size=30,
)


@given(steps=STEPS, cut=st.integers(0, 90), final=st.booleans())
def test_the_equations_hold_wherever_the_counting_was_cut(steps, cut, final):
    """Each request is counted eligible, then skipped or sampled, then captured or dropped; a record
    taken between any two of these balances."""
    events = []
    for step, reason in steps:
        decision = [("skipped", reason)] if step == "skipped" else [("sampled", "")]
        end = [(step, reason)] if step in ("captured", "dropped") else []
        events += [("eligible", ""), *decision, *end]
    values = {}
    for counter, reason in events[:cut]:
        values["fp8", counter, reason] = values.get(("fp8", counter, reason), 0) + 1

    class Record:
        counts = tally(values, final=final)

    assert balances(Record)


def test_a_wrong_count_is_not_filled_up():
    """More captured than sampled is a fault and stays visible."""

    class Record:
        counts = tally({("fp8", "captured", ""): 2, ("fp8", "sampled", ""): 1}, final=False)

    assert not balances(Record)
    assert all(count.value >= 0 for count in Record.counts)


def test_two_threads_lose_no_count_and_no_sequence(tmp_path):
    """The event loop and the sender count at the same time."""
    with opened(tmp_path) as (ledger, _):
        sequences: list[int] = []

        def work():
            for _ in range(5000):
                ledger.add("fp8", "captured")
                sequences.append(ledger.next_sequence())
                ledger.dropped_sequence()

        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            threads = [threading.Thread(target=work) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(before)
        record = ledger.snapshot(1)
    assert counts(record)["fp8", "captured", ""] == 15000
    assert sorted(sequences) == list(range(1, 15001))
    assert (record.high_sequence, record.dropped_sequences) == (15000, 15000)


def test_counting_in_one_go_counts_as_one_by_one(tmp_path):
    """Names that are new and known, one of them twice; a record's capture also lets go of it."""
    with opened(tmp_path) as (ledger, _):
        ledger.add("fp8", "sampled")
        ledger.add_all([("fp8", "sampled", ""), ("fp8", "eligible", ""), ("fp8", "eligible", "")])
        shared, other = ledger.opened(5), ledger.opened(6)
        ledger.hold(shared)
        ledger.captured([("primary", shared), ("fp8", other), ("fp8", other)])
        values = ledger.values()
        assert (values["fp8", "sampled", ""], values["fp8", "eligible", ""]) == (2, 2)
        assert (values["primary", "captured", ""], values["fp8", "captured", ""]) == (1, 2)
        assert ledger.low_water(9) == 5
        ledger.captured([("fp8", shared)])
        assert ledger.low_water(9) == 9


def test_low_water_is_the_oldest_request_that_is_open_queued_or_spooled(tmp_path):
    """A request is closed when its last record is stored or dropped, whatever order they end in."""
    with opened(tmp_path) as (ledger, _):
        assert ledger.low_water(900) == 900
        old, new = ledger.opened(100), ledger.opened(50)
        ledger.hold(old)
        ledger.hold(old)
        assert ledger.low_water(900) == 50
        ledger.release(new)
        assert ledger.low_water(900) == 100
        for _ in range(2):
            ledger.release(old)
        assert ledger.low_water(900) == 100
        ledger.release(old)
        assert ledger.low_water(900) == 900
        ledger.release(old)  # once too often: a client's stream must not break over it
        assert ledger.low_water(900) == 900


def test_a_record_stays_behind_the_clock_while_requests_are_being_opened(tmp_path):
    """A request is stamped before it is opened: a record taken in between must not pass it."""
    now = 10 * OPENING_NS
    with opened(tmp_path) as (ledger, _):
        assert ledger.snapshot(now).low_water == now - OPENING_NS
        ledger.opened(7)
        assert ledger.snapshot(now).low_water == 7
        assert ledger.snapshot(now, final=True).low_water is None


def test_accounting_sequences_count_from_1(tmp_path):
    with opened(tmp_path) as (ledger, _):
        assert [ledger.snapshot(1).sequence for _ in range(3)] == [1, 2, 3]


def test_workers_of_two_hosts_are_two(tmp_path):
    """Each host's first worker has place 0: to the analysis both are alive, and the slower holds windows open."""
    records = []
    for host in ("web-1", "web-2"):
        ledger, dead = Ledger.open(tmp_path / host, "0", "llama", "c0ffee", host)
        assert dead == []
        assert [path.name.split("@")[0] for path in (tmp_path / host).glob("*.counters")] == ["0"]
        records.append(ledger.snapshot(10**18 + len(records)))
        ledger.close(published=True)
    boots = [
        Boot(each.worker, each.boot_id, each.at, 0, 0, each.low_water, each.final)
        for each in records
    ]
    assert [boot.worker for boot in boots] == ["web-1/0", "web-2/0"]
    assert set(live(boots, 10**18 + 10**9)) == {boot.boot_id for boot in boots}
    assert all(misnamed(record) is None for record in records)


KILLED = """
import os, signal, sys
from pathlib import Path
from shadow.publish.accounting import Ledger
ledger, _ = Ledger.open(Path(sys.argv[1]), "0", "old", "0ld")
for n in range(7):
    ledger.add("fp8", "eligible")
    ledger.add("fp8", "sampled")
    ledger.next_sequence()
for n in range(3):
    ledger.add("fp8", "captured")
ledger.add("fp8", "dropped", "queue_full")
ledger.dropped_sequence()
ledger.add("fp8", "eligible")
ledger.snapshot(1)
ledger.snapshot(2)
print(ledger.boot_id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(folder) -> str:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE, check=False
    )
    assert done.returncode == -signal.SIGKILL
    return done.stdout.decode().strip()


def test_the_next_process_says_what_a_killed_one_had_counted(tmp_path):
    """With the dead one's identity, a sequence above its own, and what it took with it as lost."""
    boot_id = killed(tmp_path)
    with opened(tmp_path) as (ledger, (last,)):
        assert (last.boot_id, last.experiment, last.config_hash) == (boot_id, "old", "0ld")
        assert ledger.boot_id != boot_id
    assert (last.sequence, last.final, last.low_water) == (3, True, None)
    assert (last.high_sequence, last.dropped_sequences) == (7, 1)
    assert counts(last) == {
        ("fp8", "eligible", ""): 7,
        ("fp8", "sampled", ""): 7,
        ("fp8", "captured", ""): 3,
        ("fp8", "dropped", "queue_full"): 1,
        ("fp8", "lost", ""): 3,
    }
    assert balances(last)


def test_a_predecessors_counts_stay_until_they_are_settled(tmp_path):
    """A successor that dies before it could publish them leaves them, and its own, to the next."""
    first, second = killed(tmp_path), killed(tmp_path)
    with opened(tmp_path) as (ledger, dead):
        assert [record.boot_id for record in dead] == [first, second]
        ledger.settle(first)
    with opened(tmp_path) as (_, dead):
        assert [record.boot_id for record in dead] == [second]


def test_a_published_end_leaves_nothing_and_an_unpublished_one_is_a_predecessor(tmp_path):
    with opened(tmp_path, published=False) as (ledger, _):
        ledger.add("fp8", "sampled")
    with opened(tmp_path) as (_, dead):
        assert [counts(record)["fp8", "lost", ""] for record in dead] == [1]
        boot_id = dead[0].boot_id
    with opened(tmp_path) as (ledger, dead):
        ledger.settle(boot_id)
    with opened(tmp_path) as (_, dead):
        assert dead == []


def test_workers_of_one_folder_do_not_mix(tmp_path):
    """A name that begins like another is another place."""
    with opened(tmp_path, "0", published=False), opened(tmp_path, "0-1", published=False):
        pass
    with opened(tmp_path, "0-1") as (_, dead):
        assert [record.worker for record in dead] == ["0-1"]
    with opened(tmp_path, "0") as (_, dead):
        assert [record.worker for record in dead] == ["0"]


def test_a_second_live_process_of_a_place_is_refused(tmp_path):
    with opened(tmp_path), pytest.raises(PlaceTaken, match="the worker's place 0 already"):
        Ledger.open(tmp_path, "0", "llama", "c0ffee")
    with opened(tmp_path) as (_, dead):
        assert dead == []


def test_the_thread_that_closes_may_be_another(tmp_path):
    ledger, _ = Ledger.open(tmp_path, "0", "llama", "c0ffee")
    closed = threading.Thread(target=ledger.close, kwargs={"published": True})
    closed.start()
    closed.join()
    with closing(open(tmp_path / "0.lock")) as left:  # noqa: PTH123 the file is there, unlocked
        assert left.read().isdigit()


def test_a_predecessor_that_cannot_be_read_is_set_aside(tmp_path):
    """A stray or damaged file of counters keeps no proxy down: it is renamed, and said."""
    for name, content in (
        ("0@junk.counters", b"junk"),
        ("0@cut.counters", b"shadow-counters-1\n{"),
    ):
        (tmp_path / name).write_bytes(content)
    ledger, dead = Ledger.open(tmp_path, "0", "e", "c")
    ledger.close(published=True)
    assert dead == []
    assert {path.name for path in tmp_path.glob("*.damaged")} == {"0@junk.damaged", "0@cut.damaged"}
    ledger, dead = Ledger.open(tmp_path, "0", "e", "c")
    ledger.close(published=True)
    assert dead == []
