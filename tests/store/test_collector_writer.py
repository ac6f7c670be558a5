"""A batch is stored but for the rows that cannot be, once each, whenever the store is there."""

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError
from hypothesis import HealthCheck, given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from collector.patience import Backoff
from collector.store_errors import StoreRefused, StoreUnavailable
from collector.writer import Refused, Writer

COLUMNS = ["i", "v"]


class Time:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.now, self.slept = 0.0, []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


class Failing:
    """A client whose inserts fail as told, before or after they were stored."""

    def __init__(self, client, *failures):
        self._client, self._failures = client, list(failures)
        self.inserts = 0

    def insert(self, table, rows, **named):
        self.inserts += 1
        failure = self._failures.pop(0) if self._failures else None
        if isinstance(failure, tuple):
            self._client.insert(table, rows, **named)
            raise failure[0]
        if failure is not None:
            raise failure
        return self._client.insert(table, rows, **named)


class Checked:
    """A store in memory that refuses a batch with one negative value in it."""

    def __init__(self):
        self.stored, self.tokens = [], []

    def insert(self, _table, rows, *, column_names, settings):
        assert column_names == COLUMNS
        if any(row[1] < 0 for row in rows):
            raise DatabaseError("Code: 469. DB::Exception: constraint", code=469)
        self.tokens.append(settings["insert_deduplication_token"])
        self.stored.extend(rows)


@pytest.fixture
def made(client, table):
    client.command(
        f"CREATE TABLE {table} (i UInt32, v UInt32) ENGINE = MergeTree ORDER BY i SETTINGS non_replicated_deduplication_window = 100"
    )
    return table


def stored(client, table):
    return [row[0] for row in client.query(f"SELECT i FROM {table} ORDER BY i").result_rows]


BAD = ["text", None, -1, 2**32, [1]]


@pytest.mark.parametrize("bad", BAD, ids=repr)
def test_a_value_that_does_not_fit_stands_alone(client, made, bad):
    """Every other row is stored; the row at fault comes back with its index and a reason."""
    rows = [(i, bad if i in {3, 8} else i) for i in range(11)]
    refused = Writer(client).insert(made, COLUMNS, rows, "token")
    assert [each.index for each in refused] == [3, 8]
    assert all(each.reason and "\n" not in each.reason for each in refused)
    assert stored(client, made) == [i for i in range(11) if i not in {3, 8}]


def test_the_same_batch_again_stores_nothing_twice(client, made):
    """A redelivered batch has the same token, and so have its halves."""
    rows = [(i, "bad" if i == 5 else i) for i in range(20)]
    for _ in range(2):
        assert [each.index for each in Writer(client).insert(made, COLUMNS, rows, "batch")] == [5]
    assert stored(client, made) == [i for i in range(20) if i != 5]


def test_a_value_that_the_server_refuses_stands_alone(client, table):
    """A constraint is checked by the store itself, so its code decides, not the client's types."""
    client.command(
        f"CREATE TABLE {table} (i UInt32, v Int32, CONSTRAINT c CHECK v >= 0) ENGINE = MergeTree ORDER BY i"
    )
    refused = Writer(client).insert(
        table, COLUMNS, [(i, -1 if i == 2 else i) for i in range(5)], "t"
    )
    assert [each.index for each in refused] == [2]
    assert "Code: 469" in refused[0].reason
    assert stored(client, table) == [0, 1, 3, 4]


def test_a_table_at_fault_is_no_rows_fault(client, made):
    """Missing tables and columns are raised: no row becomes a dead letter for them."""
    for table, columns in (("nope", COLUMNS), (made, ["i", "nope"]), (made, ["i"])):
        with pytest.raises(StoreRefused):
            Writer(client).insert(table, columns, [(1, 2), (3, 4)], "t")
    assert stored(client, made) == []


def test_a_batch_over_very_many_days_is_stored(client, table):
    """Partitions are by day; the store's bound on them in one insert does not refuse good rows."""
    client.command(
        f"CREATE TABLE {table} (i UInt32, v Date) ENGINE = MergeTree PARTITION BY v ORDER BY i"
    )
    days = 150
    assert Writer(client).insert(table, ["i", "v"], [(i, i) for i in range(days)], "t") == []
    assert stored(client, table) == list(range(days))


def test_an_empty_batch_asks_nothing():
    """No rows, no request."""
    assert Writer(None).insert("t", COLUMNS, [], "t") == []


@bounded(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.integers(-1, 3), max_size=40))
def test_whatever_is_refused_the_rest_is_stored_in_order_and_once(values):
    """Any pattern of bad rows: stored and refused together are the batch; tokens never repeat."""
    store = Checked()
    rows = list(enumerate(values))
    refused = Writer(store).insert("t", COLUMNS, rows, "t")
    assert store.stored == [row for row in rows if row[1] >= 0]
    assert [each.index for each in refused] == [i for i, value in rows if value < 0]
    assert len(set(store.tokens)) == len(store.tokens)


GONE = OperationalError("Error connection refused")


def test_an_unavailable_store_is_waited_for(client, made):
    """Waits double up to the cap; the rows are stored once though some inserts went through."""
    time = Time()
    failing = Failing(client, GONE, (GONE,), DatabaseError("memory", code=241), GONE)
    writer = Writer(failing, Backoff(first_s=1, cap_s=3, limit_s=60), time, time.sleep)
    assert writer.insert(made, COLUMNS, [(1, 1), (2, 2)], "t") == []
    assert (time.slept, failing.inserts) == ([1, 2, 3, 3], 5)
    assert stored(client, made) == [1, 2]


def test_after_its_limit_it_gives_up():
    """It raises within the limit, never sleeping past it, for the supervisor to start anew."""
    time = Time()
    failing = Failing(None, *[GONE] * 100)
    writer = Writer(failing, Backoff(first_s=1, cap_s=10, limit_s=30), time, time.sleep)
    with pytest.raises(StoreUnavailable, match="refused"):
        writer.insert("t", COLUMNS, [(1, 1)], "t")
    assert time.slept == [1, 2, 4, 8, 10]


def test_a_refused_row_is_what_it_says():
    """Equal by index and reason, for those who sort and compare."""
    assert Refused(1, "x") == Refused(1, "x")
