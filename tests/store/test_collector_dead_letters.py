"""Dead letters keep the original bytes, are stored once, and never vanish between flush and commit."""

import pytest
from clickhouse_connect.driver.exceptions import OperationalError

from collector.dead_letters import DeadLetter, DeadLetters
from collector.migrate import Retention, migrate
from collector.origin import Origin
from collector.patience import Backoff
from collector.store_errors import StoreRefused, StoreUnavailable
from collector.writer import Writer

READ = "SELECT toUnixTimestamp64Nano(at), source, reason, key, value FROM dead_letters WHERE source LIKE '{}%' ORDER BY source"
DAY_NS = 86_400 * 10**9


@pytest.fixture
def letters(client):
    migrate(client, "shadow", Retention(100_000 * 86_400, 100_000 * 86_400))
    return DeadLetters(Writer(client))


def kept(client, prefix):
    return client.query(READ.format(prefix), query_formats={"String": "bytes"}).result_rows


def test_bytes_and_instant_are_kept_as_they_were(client, letters, table):
    """Nanoseconds, broken UTF-8, NUL and nothing at all."""
    first = DeadLetter(20_000 * DAY_NS + 123_456_789, f"{table}:0", "not JSON", b"", b"")
    second = DeadLetter(
        20_000 * DAY_NS + 1, f"{table}:1", "ü", bytes(range(256)), b"\xff\0'" * 100_000
    )
    letters.add(first)
    letters.add(second)
    assert letters.flush() == 2
    assert kept(client, table) == [
        (each.at_ns, each.source.encode(), each.reason.encode(), each.key, each.value)
        for each in (first, second)
    ]


def test_the_exchange_that_it_was_is_kept(client, letters, table):
    """Where it is known; else the columns are empty."""
    origin = Origin("e", "w", "b", 2**60)
    letters.add(DeadLetter(20_000 * DAY_NS, f"{table}:1", "x", b"", b"", origin))
    letters.add(DeadLetter(20_000 * DAY_NS, f"{table}:2", "x", b"", b""))
    letters.flush()
    rows = client.query(
        "SELECT experiment, worker, boot_id, sequence FROM dead_letters "
        f"WHERE source LIKE '{table}%' ORDER BY source"
    ).result_rows
    assert list(rows) == [("e", "w", "b", 2**60), ("", "", "", 0)]


def test_a_redelivered_batch_keeps_its_letters_once(client, letters, table):
    """The same sources again, later and with another wording, are the same letters."""
    for at_ns in (20_000 * DAY_NS, 20_000 * DAY_NS + 3_600 * 10**9):
        letters.add(DeadLetter(at_ns, f"{table}:7", f"tried at {at_ns}", b"k", b"v"))
        letters.flush()
    assert len(kept(client, table)) == 1


def test_nothing_open_asks_nothing():
    """No letters, no request."""
    assert DeadLetters(Writer(None)).flush() == 0


def test_what_was_not_flushed_can_be_forgotten(client, letters, table):
    """On a revoked partition; its next owner reads the record again."""
    letters.add(DeadLetter(20_000 * DAY_NS, f"{table}:1", "x", b"", b""))
    letters.clear()
    assert letters.flush() == 0
    assert kept(client, table) == []


class Broken:
    def __init__(self, error, client):
        self.error, self.query = error, client.query

    def insert(self, *_args, **_named):
        raise self.error


@pytest.mark.parametrize(
    ("error", "raised"),
    [(OperationalError("gone"), StoreUnavailable), (TypeError("no bytes"), StoreRefused)],
)
def test_a_flush_that_fails_raises_and_keeps_them(error, raised, client, table):
    """So nothing is committed; the next flush stores them."""
    broken = Broken(error, client)
    letters = DeadLetters(Writer(broken, Backoff(limit_s=0), sleep=lambda _: None))
    letters.add(DeadLetter(20_000 * DAY_NS, f"{table}:1", "x", b"", b"v"))
    with pytest.raises(raised):
        letters.flush()
    broken.insert = client.insert
    assert letters.flush() == 1
    assert len(kept(client, table)) == 1


def test_a_batch_that_is_cut_otherwise_after_a_crash_doubles_nothing(client, letters, table):
    """Stored, not committed, read again with one more, or one fewer: each letter stands once."""

    def flushed(numbers, at_ns):
        again = DeadLetters(Writer(client))
        for number in numbers:
            again.add(DeadLetter(at_ns, f"{table}:{number}", "x", b"", b"v"))
        return again.flush()

    assert flushed([0, 1], 20_000 * DAY_NS) == 2
    assert flushed([0, 1, 2], 20_000 * DAY_NS + 10**9) == 3
    assert flushed([1], 20_001 * DAY_NS + 10**9) == 1
    assert [row[1] for row in kept(client, table)] == [f"{table}:{n}".encode() for n in (0, 1, 2)]
