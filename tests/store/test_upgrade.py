"""What docs/operations.md says of upgrades: files of an older version are read, a newer version's tables
disturb no older collector that runs, and the way back is the statement that stands there.

`older/` holds what a proxy of the first day left when it was killed: its counters, and its part of the
embedded log, with five requests to the primary and one arm. They are never made anew.
"""

from __future__ import annotations

import gzip
import itertools
import re
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from collector.decode import rows_of
from collector.migrate import FOLDER, MigrationError, Retention, migrate
from collector.names import misnamed
from collector.writer import Writer
from shadow.exchange import decode
from shadow.publish.accounting import Ledger
from shadow.stream.embedded import EmbeddedConsumer

OLDER = Path(__file__).parent / "older"
PAGE = (Path(__file__).parent.parent.parent / "docs/operations.md").read_text()
KEEP = Retention(bodies_s=7 * 86_400, measures_s=90 * 86_400)
_names = itertools.count()


def unpacked(name, folder):
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(gzip.decompress((OLDER / f"{name}.gz").read_bytes()))


def older_records(folder):
    unpacked("0.sqlite3", folder)
    with closing(EmbeddedConsumer(folder)) as consumer:
        return [each.value for each in consumer.poll(1000, 0.0)]


def test_an_older_proxys_log_is_read_whole(tmp_path):
    """Every record that it wrote is a record still, with names that count as a proxy's."""
    records = [decode(value) for value in older_records(tmp_path)]
    assert {record.record for record in records} == {"exchange", "accounting"}
    exchanges = [record for record in records if record.record == "exchange"]
    assert sorted((each.arm, each.sequence) for each in exchanges) == sorted(
        (each.arm, n + 1) for n, each in enumerate(sorted(exchanges, key=lambda e: e.sequence))
    )
    assert [each.arm for each in exchanges].count("primary") == 5
    assert all(misnamed(record) is None for record in records)


def test_an_older_proxys_last_counts_are_published_by_the_next(tmp_path):
    """It was killed: what it had counted is said in its name, and nothing is lost."""
    unpacked("0.counters", tmp_path)
    (tmp_path / "0.counters").rename(tmp_path / "0@a8fe99f6518c9ad6.counters")
    ledger, (last,) = Ledger.open(tmp_path, "0", "upgrade", "c", "host")
    ledger.close(published=True)
    counts = {(each.arm, each.counter): each.value for each in last.counts}
    assert (last.worker, last.boot_id, last.final) == ("0", "a8fe99f6518c9ad6", True)
    assert counts["fp8", "captured"] == counts["primary", "captured"] == 5
    assert counts["fp8", "lost"] == counts["primary", "lost"] == 0


@pytest.fixture
def newer(client, tmp_path):
    """Tables of a version after this one: a further column and a further table."""
    before, name = client.database, f"u{next(_names)}"
    folder = tmp_path / "newer"
    shutil.copytree(FOLDER, folder)
    (folder / "9001_later.sql").write_text(
        "ALTER TABLE exchanges ADD COLUMN IF NOT EXISTS later Nullable(Float64);"
        "CREATE TABLE IF NOT EXISTS later (at DateTime64(9, 'UTC')) ENGINE = MergeTree ORDER BY at"
    )
    migrate(client, name, KEEP, folder)
    yield folder
    client.database = before
    client.command(f"DROP DATABASE {name} SYNC")


def stored(client):
    return client.query(
        "SELECT arm, count() FROM exchanges FINAL GROUP BY arm ORDER BY arm"
    ).result_rows


def test_a_newer_versions_tables_take_an_older_collectors_rows(client, newer, tmp_path):
    """One that runs goes on, and stores all; what it does not know is null."""
    writer = Writer(client)
    for number, value in enumerate(older_records(tmp_path / "stream")):
        for table, rows in rows_of(value, "text").items():
            if not rows:
                continue
            values = [tuple(row.values()) for row in rows]
            assert writer.insert(table, tuple(rows[0]), values, f"{number}:{table}") == []
    assert stored(client) == [("fp8", 5), ("primary", 5)]
    assert client.query("SELECT countIf(later IS NOT NULL) FROM exchanges").result_rows == [(0,)]


def test_an_older_collector_starts_on_them_after_the_pages_statement(client, newer):
    """Before it, it says whose tables they are; after it, it works; and the newer one comes back."""
    with pytest.raises(
        MigrationError, match=r"9001_later.sql: .* a newer shadow made these tables"
    ):
        migrate(client, client.database, KEEP)
    (said,) = re.findall(r"ALTER TABLE migrations DELETE WHERE [^\"\n]+", PAGE)
    client.command(re.sub(r"'\d{4}'", "'9001'", said))
    assert migrate(client, client.database, KEEP) == []
    assert migrate(client, client.database, KEEP, newer) == ["applied 9001_later.sql"]
