"""A batch closes by records, bytes or age, and its offsets cover exactly what it holds."""

import pytest

from collector.bad_ratio import BadRatio, TooManyBadValues
from collector.batch import Batch, BatchLimits
from collector.patience import Backoff, patiently
from shadow.stream import Delivered


def record(offset, value=b"12345", partition="0"):
    return Delivered(partition, offset, b"k", value)


def test_offsets_travel_with_the_payload():
    """Next offset a partition, whether its last record became rows or a dead letter."""
    batch = Batch(BatchLimits())
    batch.add_rows(record(4), {"exchanges": [{"a": 1}], "bodies": []}, now=0.0)
    batch.add_rows(record(9, partition="1"), {}, now=0.0)
    batch.add_bad(record(5), "why", now=0.0)
    assert batch.offsets == {"0": 6, "1": 10}
    assert [each.delivered.offset for each in batch.tables["exchanges"]] == [4]
    assert (batch.bad[0].reason, batch.records) == ("why", 3)


def test_a_record_without_rows_leaves_no_empty_table():
    """An idle worker's accounting has no counters: its offset counts, there is nothing to insert."""
    batch = Batch(BatchLimits())
    batch.add_rows(record(0), {"accounting": [], "workers": [{"a": 1}]}, now=0.0)
    assert list(batch.tables) == ["workers"]
    assert batch.offsets == {"0": 1}


def test_it_closes_by_records():
    """At the limit, not before."""
    batch = Batch(BatchLimits(records=2, age_s=9.0))
    batch.add_rows(record(0), {}, now=0.0)
    assert not batch.is_due(0.0)
    batch.add_rows(record(1), {}, now=0.0)
    assert batch.is_due(0.0)


def test_it_closes_by_bytes():
    """Of the wire and of what bodies unfold to."""
    batch = Batch(BatchLimits(bytes=30, age_s=9.0))
    batch.add_rows(
        record(0), {"bodies": [{"request": b"r" * 9, "answer": "a" * 9, "raw": b""}]}, now=0.0
    )
    assert (batch.bytes, batch.is_full()) == (23, False)
    batch.add_bad(record(1, b"1234567"), "why", now=0.0)
    assert batch.is_full()


def test_it_closes_by_age_since_its_first_record():
    """An empty batch never is due."""
    batch = Batch(BatchLimits(age_s=2.0))
    assert (batch.is_due(100.0), batch.closes_in(100.0)) == (False, 2.0)
    batch.add_rows(record(0), {}, now=100.0)
    batch.add_rows(record(1), {}, now=101.5)
    assert (batch.closes_in(101.5), batch.is_due(101.9), batch.is_due(102.0)) == (0.5, False, True)


def test_the_ratio_looks_back_over_a_window():
    """Few bad values are tolerated whatever their share; old ones are forgotten."""
    ratio = BadRatio(most=0.5, window=10, least=3)
    for _ in range(2):
        ratio.bad("0:1", "why")
    for _ in range(10):
        ratio.good()
    for _ in range(5):
        ratio.bad("0:2", "why")
    with pytest.raises(TooManyBadValues, match=r"6 of the last 10 .* at 0:3: why"):
        ratio.bad("0:3", "why")


def test_patience_ends():
    """Waits double to the cap and end before the limit; what is no bad world is raised at once."""
    now, waits = [0.0], []

    def sleep(seconds):
        waits.append(seconds)
        now[0] += seconds

    def fail():
        raise ConnectionError("away")

    backoff = Backoff(1.0, 3.0, 10.0)
    with pytest.raises(ConnectionError):
        patiently(fail, ConnectionError, backoff, lambda: now[0], sleep)
    assert waits == [1.0, 2.0, 3.0, 3.0]
    with pytest.raises(ConnectionError):
        patiently(fail, ValueError, backoff, lambda: now[0], sleep)
    assert len(waits) == 4
