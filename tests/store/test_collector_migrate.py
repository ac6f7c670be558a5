"""Migrations are applied once, in order, whatever interrupts them; retention follows the file."""

import itertools
import shutil

import pytest

from collector.migrate import FOLDER, MigrationError, Retention, behind, migrate, read_migrations
from collector.store_errors import StoreRefused, StoreUnavailable

KEEP = Retention(bodies_s=7 * 86_400, measures_s=90 * 86_400)
_names = itertools.count()


@pytest.fixture
def database(client):
    """A database of the test's own; the client is put back afterwards."""
    before = client.database
    name = f"m{next(_names)}"
    yield name
    client.database = before
    client.command(f"DROP DATABASE IF EXISTS {name} SYNC")


@pytest.fixture
def folder(tmp_path):
    return tmp_path


def write(folder, **files):
    for name, text in files.items():
        (folder / f"{name[1:]}.sql").write_text(text)


def tables(client, database):
    return {row[0] for row in client.query(f"SHOW TABLES FROM {database}").result_rows}


def test_our_tables_come_into_being_once(client, database):
    """All files in order, then nothing to do; every table of the contract is there."""
    done = migrate(client, database, KEEP)
    files = [path.name for path in sorted(FOLDER.glob("*.sql"))]
    assert [line for line in done if line.startswith("applied")] == [
        f"applied {name}" for name in files
    ]
    expected = {
        "exchanges",
        "bodies",
        "dead_letters",
        "accounting",
        "workers",
        "pairs",
        "windows",
        "verdicts",
    }
    assert expected | {"waivers", "events", "migrations"} <= tables(client, database)
    assert migrate(client, database, KEEP) == []
    assert client.database == database


def test_a_store_that_is_being_made_is_told_from_a_fault(client, database, tmp_path):
    """A database of the first five migrations lacks the others, by name; a whole one lacks none."""
    early = tmp_path / "early"
    early.mkdir()
    for path in sorted(FOLDER.glob("*.sql"))[:5]:
        shutil.copy(path, early)
    migrate(client, database, KEEP, early)
    said = behind(client)
    assert said is not None
    assert ", 0006_" in said
    assert "shadow migrate" in said
    migrate(client, database, KEEP)
    assert behind(client) is None


def test_retention_follows_the_configuration(client, database):
    """Texts by `bodies`, figures by `measures`; what did not change is left alone."""
    first = migrate(client, database, KEEP)
    assert "bodies: TTL toDateTime(arrived_at) + toIntervalSecond(604800)" in first
    assert "windows: TTL toDateTime(window) + toIntervalSecond(7776000)" in first
    changed = migrate(client, database, Retention(KEEP.bodies_s, 86_400))
    names = {line.split(":")[0] for line in changed}
    assert names == {"exchanges", "pairs", "windows", "window_totals", "accounting", "workers"}
    kept = client.query(
        "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree' AND create_table_query NOT LIKE '%TTL%'"
    )
    assert {row[0] for row in kept.result_rows} == {
        "verdicts",
        "waivers",
        "events",
        "purges",
        "migrations",
    }


def test_rows_past_their_retention_leave(client, database):
    """The clause does what it says: an old text goes, a new one stays; for ever is for ever."""
    migrate(client, database, Retention(10**12, 10**12))
    client.command(
        "INSERT INTO bodies (arrived_at, pair_id) SELECT now64(9) - INTERVAL 9 DAY, 'older'"
    )
    assert client.query("SELECT pair_id FROM bodies").result_rows == [("older",)]
    migrate(client, database, KEEP)
    client.command(
        "INSERT INTO bodies (arrived_at, pair_id) SELECT now64(9) - INTERVAL 8 DAY, 'old'"
    )
    client.command("INSERT INTO bodies (arrived_at, pair_id) SELECT now64(9), 'new'")
    client.command("OPTIMIZE TABLE bodies FINAL")
    assert client.query("SELECT pair_id FROM bodies").result_rows == [("new",)]


def test_a_changed_file_is_an_error_that_names_it(client, database, folder):
    """What was applied is history: a change is a new file."""
    write(folder, _0001_a="CREATE TABLE IF NOT EXISTS a (x UInt8) ENGINE = Memory")
    migrate(client, database, KEEP, folder)
    write(folder, _0001_a="CREATE TABLE IF NOT EXISTS a (x UInt16) ENGINE = Memory")
    with pytest.raises(MigrationError, match=r"0001_a\.sql: was applied and has changed since"):
        migrate(client, database, KEEP, folder)


def test_a_file_that_is_gone_is_an_error_that_names_it(client, database, folder):
    """An older version of the program must not work on newer tables."""
    write(folder, _0001_a="SELECT 1", _0002_b="SELECT 2")
    migrate(client, database, KEEP, folder)
    (folder / "0002_b.sql").unlink()
    with pytest.raises(
        MigrationError, match=r"0002_b\.sql: was applied and is not among the files"
    ):
        migrate(client, database, KEEP, folder)


def test_files_are_applied_by_number_and_later_ones_later(client, database, folder):
    """Only what is new runs; semicolons in quotes and comments divide nothing."""
    write(
        folder,
        _0010_b="INSERT INTO a SELECT 2 -- not; here\n; INSERT INTO a SELECT length('a;b')",
        _0002_a="/* a; */ CREATE TABLE IF NOT EXISTS a (x UInt8) ENGINE = MergeTree ORDER BY x;\n",
    )
    assert migrate(client, database, KEEP, folder) == ["applied 0002_a.sql", "applied 0010_b.sql"]
    write(folder, _0011_c="INSERT INTO a SELECT 4")
    assert migrate(client, database, KEEP, folder) == ["applied 0011_c.sql"]
    assert client.query("SELECT x FROM a ORDER BY x").result_rows == [(2,), (3,), (4,)]


def test_names_that_are_no_migrations_are_refused(folder):
    """Before anything is applied."""
    write(folder, _first="SELECT 1")
    with pytest.raises(MigrationError, match=r"first\.sql: not named NNNN_words\.sql"):
        read_migrations(folder)
    (folder / "first.sql").unlink()
    write(folder, _0001_a="SELECT 1", _0001_b="SELECT 1")
    with pytest.raises(MigrationError, match=r"0001_b\.sql: the number 0001 is taken"):
        read_migrations(folder)


class Interrupted:
    """A client that dies at its n-th statement."""

    def __init__(self, client, at):
        self._client, self._left = client, at

    def _count(self):
        self._left -= 1
        if self._left < 0:
            raise StoreUnavailable("killed")

    def command(self, *args, **named):
        self._count()
        return self._client.command(*args, **named)

    def insert(self, *args, **named):
        self._count()
        return self._client.insert(*args, **named)

    def query(self, *args, **named):
        self._count()
        return self._client.query(*args, **named)

    @property
    def database(self):
        return self._client.database

    @database.setter
    def database(self, name):
        self._client.database = name


def test_an_interruption_at_any_statement_is_mended_by_the_next_run(client, database, folder):
    """Killed before its n-th statement, for every n; the second run ends where one run would."""
    for path in FOLDER.glob("0002*.sql"):
        shutil.copy(path, folder)
    write(
        folder, _0003_more="CREATE TABLE IF NOT EXISTS more (x UInt8) ENGINE = MergeTree ORDER BY x"
    )
    for statement in itertools.count():
        try:
            migrate(Interrupted(client, statement), database, KEEP, folder)
        except StoreUnavailable:
            migrate(client, database, KEEP, folder)
        else:
            break
        assert migrate(client, database, KEEP, folder) == []
        assert tables(client, database) == {"migrations", "accounting", "workers", "more"}
        client.database = "shadow"
        client.command(f"DROP DATABASE {database} SYNC")
    assert statement > 9


def test_a_statement_that_is_refused_is_not_recorded(client, database, folder):
    """The error is the store's; the file is tried again when it is mended."""
    write(folder, _0001_a="CREATE TABLE IF NOT EXISTS a (x Nope) ENGINE = Memory")
    with pytest.raises(StoreRefused) as refused:
        migrate(client, database, KEEP, folder)
    assert refused.value.code == 50
    write(folder, _0001_a="CREATE TABLE IF NOT EXISTS a (x UInt8) ENGINE = Memory")
    assert migrate(client, database, KEEP, folder) == ["applied 0001_a.sql"]
