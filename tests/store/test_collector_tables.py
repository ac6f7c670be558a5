"""The tables are the contract's: engine and version, partitions, keys, deduplication, retention."""

import itertools
import re
import time

import pytest

from collector.migrate import Retention, migrate
from collector.writer import Writer

KEEP = Retention(bodies_s=7 * 86_400, measures_s=90 * 86_400)
DAY, MONTH = "toYYYYMMDD(arrived_at)", "toYYYYMM(window)"
BODIES, MEASURES = "604800", "7776000"
REQUEST = "experiment, toStartOfHour(arrived_at), pair_id, arm"
CONTRACT = {
    # table: engine, partition, sorting key, seconds that rows stay
    "exchanges": ("ReplacingMergeTree(version)", DAY, f"{REQUEST}, replica, probe", MEASURES),
    "bodies": ("ReplacingMergeTree(version)", DAY, f"{REQUEST}, replica, probe", BODIES),
    "pairs": ("ReplacingMergeTree(version)", DAY, f"{REQUEST}, reference_arm, replica, probe", MEASURES),
    "windows": ("ReplacingMergeTree(version)", MONTH, "experiment, comparison, candidate, reference_arm, replica, probe, window, metric", MEASURES),
    "window_totals": ("ReplacingMergeTree(version)", MONTH, "experiment, comparison, candidate, reference_arm, window", MEASURES),
    "accounting": ("ReplacingMergeTree(sequence)", "", "experiment, worker, boot_id, arm, counter, reason", MEASURES),
    "workers": ("ReplacingMergeTree(sequence)", "", "experiment, worker, boot_id", MEASURES),
    "verdicts": ("MergeTree", "toYYYYMM(at)", "experiment, candidate, at", None),
    "waivers": ("MergeTree", "", "experiment, candidate, at", None),
    "events": ("MergeTree", "", "experiment, at, kind", None),
    "dead_letters": ("MergeTree", "toYYYYMMDD(at)", "at, source", BODIES),
    "purges": ("ReplacingMergeTree(at)", "", "subject, measures", None),
}  # fmt: skip
NOW = time.time_ns()  # what is older than its retention leaves at once
_names = itertools.count()


@pytest.fixture(scope="module")
def made(http_client):
    """Our tables in a database of the module's own."""
    before = http_client.database
    name = f"t{next(_names)}"
    migrate(http_client, name, KEEP)
    yield http_client
    http_client.database = before
    http_client.command(f"DROP DATABASE {name} SYNC")


def test_every_table_is_the_contracts(made):
    """As the engine itself tells them; a table more or less is a change of the contract."""
    rows = made.query(
        "SELECT name, engine_full, partition_key, sorting_key FROM system.tables WHERE database = currentDatabase() AND name != 'migrations'"
    ).result_rows
    found = {}
    for name, full, partition, sorting in rows:
        said = full.replace("`", "")
        engine = re.match(r"\w+(?:\([\w, ]+\))?", said)[0]
        kept = re.search(r"TTL toDateTime\((\w+)\) \+ toIntervalSecond\((\d+)\)", said)
        found[name] = (
            engine,
            partition.replace("`", ""),
            sorting.replace("`", ""),
            kept and kept[2],
        )
        assert "non_replicated_deduplication_window = 10000" in said, name
        if kept:  # rows age by what they are about
            assert kept[1] == {"windows": "window", "window_totals": "window"}.get(
                name, "at" if name in {"accounting", "workers", "dead_letters"} else "arrived_at"
            )
    assert found == CONTRACT


def test_every_time_is_utc_to_the_nanosecond(made):
    """Wherever the server stands, and in every table."""
    rows = made.query(
        "SELECT DISTINCT type FROM system.columns WHERE database = currentDatabase() AND type LIKE '%Date%'"
    ).result_rows
    assert {row[0] for row in rows} == {"DateTime64(9, 'UTC')", "Nullable(DateTime64(9, 'UTC'))"}


REPLACING = [name for name, row in CONTRACT.items() if row[0].startswith("Replacing")]


@pytest.mark.parametrize("table", REPLACING)
def test_the_newest_version_of_a_key_is_the_only_one(made, table):
    """Whatever order the versions come in and however often: FINAL gives one row, the newest."""
    version = re.search(r"\((\w+)\)", CONTRACT[table][0])[1]
    age = {"windows": "window", "window_totals": "window", "accounting": "at", "workers": "at"}
    columns = dict.fromkeys([age.get(table, "arrived_at"), version]) if version != "at" else ["at"]
    for value in (3, 1, 5, 5, 2):
        row = [NOW, value] if version != "at" else [NOW + value]
        made.insert(table, [row], column_names=list(columns))
    newest = f"toUInt64({version})" if version != "at" else "toUnixTimestamp64Nano(at)"
    rows = made.query(f"SELECT count(), any({newest}) FROM {table} FINAL").result_rows
    assert rows == [(1, 5 if version != "at" else NOW + 5)]


@pytest.mark.parametrize("table", ["verdicts", "waivers", "events", "dead_letters"])
def test_what_is_appended_is_stored_once_a_token(made, table):
    """Tables that replace nothing know an insert by its token, as redelivery gives it again."""
    for token in ("a", "b", "a", "b"):
        Writer(made).insert(table, ["at"], [[NOW], [NOW + 1]], token)
    assert made.query(f"SELECT count() FROM {table}").result_rows == [(4,)]
