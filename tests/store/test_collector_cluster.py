"""The migrations as a cluster gets them: golden files, the engine's own parser, and what it can run."""

import itertools
import os
import re
from pathlib import Path

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from collector import cluster
from collector.cluster import render
from collector.migrate import FOLDER, Retention, migrate, read_migrations

GOLDEN = Path(__file__).parent / "golden"
MIGRATIONS = read_migrations(FOLDER)
KEEP = Retention(bodies_s=7 * 86_400, measures_s=90 * 86_400)
_names = itertools.count()


def rendered(migration, database="shadow", name="shadow_cluster"):
    return [
        each for statement in migration.statements for each in render(statement, name, database)
    ]


@pytest.mark.parametrize("migration", MIGRATIONS, ids=lambda migration: migration.name)
def test_every_migration_is_rendered_as_its_golden_file(migration):
    """What a cluster is told is reviewed as text; a new migration brings its golden file
    (GOLDEN=write in the environment writes them)."""
    text = ";\n\n".join(rendered(migration)) + ";\n"
    path = GOLDEN / migration.name
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text)
    assert path.read_text() == text


def test_there_is_no_golden_file_of_a_migration_that_is_gone():
    """The folder holds the migrations' and nothing else."""
    assert {path.name for path in GOLDEN.iterdir()} == {each.name for each in MIGRATIONS}


@pytest.mark.parametrize("migration", MIGRATIONS, ids=lambda migration: migration.name)
def test_the_engines_own_parser_reads_every_statement(http_client, migration):
    """ON CLUSTER, Replicated and Distributed are read by ClickHouse's grammar as what they say."""
    for statement in rendered(migration):
        read = http_client.command("SELECT formatQuery({s:String})", parameters={"s": statement})
        assert "ON CLUSTER shadow_cluster" in read, statement
        assert http_client.query(f"EXPLAIN AST {statement}").result_rows


ON_CLUSTER = re.compile(r" ON CLUSTER '(?:[^'\\]|\\.)*'")


@pytest.fixture
def database(client):
    """A database of the test's own; the client is put back afterwards."""
    before = client.database
    name = f"c{next(_names)}"
    yield name
    client.database = before
    client.command(f"DROP DATABASE IF EXISTS {name} SYNC")


class OneNode:
    """A client that does a cluster's statements on this one engine: without ON CLUSTER and
    replication, and with a view in the place of a Distributed table. All else is as rendered."""

    def __init__(self, client):
        self._client, self.told = client, []

    def command(self, statement, **named):
        self.told.append(statement)
        alone = ON_CLUSTER.sub("", statement).replace("ENGINE = Replicated", "ENGINE = ")
        if "ENGINE = Distributed" in alone:
            alone = re.sub(
                r"\nENGINE = Distributed.*", " ENGINE = Merge(currentDatabase(), 'nothing')", alone
            )
        if alone.startswith("ALTER TABLE") and "_local" not in alone:
            return None  # of the Distributed table: its columns follow those of the local one
        return self._client.command(alone, **named)

    def __getattr__(self, name):
        return getattr(self._client, name)

    def insert(self, table, *args, **named):
        return self._client.insert(f"{table}_local", *args, **named)

    def query(self, statement, **named):
        return self._client.query(
            re.sub(r"\bFROM migrations\b", "FROM migrations_local", statement), **named
        )

    @property
    def database(self):
        return self._client.database

    @database.setter
    def database(self, name):
        self._client.database = name


def test_the_local_tables_are_real_ones_and_hold_what_plain_ones_hold(client, database):
    """All migrations, rendered, are run (replication and ON CLUSTER aside, which need servers):
    columns, keys, partitions, engine arguments, settings and TTL are those without a cluster."""
    one = OneNode(client)
    done = migrate(one, database, KEEP, cluster="c")
    assert migrate(one, database, KEEP, cluster="c") == []
    plain = f"{database}_plain"
    try:
        assert migrate(client, plain, KEEP) == done
        ask = "SELECT name, engine, sorting_key, partition_key, engine_full FROM system.tables WHERE database = {d:String} AND engine LIKE '%MergeTree' ORDER BY name"
        columns = "SELECT name, type, compression_codec FROM system.columns WHERE database = {d:String} AND table = {t:String} ORDER BY position"
        local = client.query(ask, parameters={"d": database}).result_rows
        single = client.query(ask, parameters={"d": plain}).result_rows
        assert [row[0] for row in local] == [f"{row[0]}_local" for row in single]
        for mine, other in zip(local, single, strict=True):
            assert mine[1:4] == other[1:4]
            assert ("TTL" in mine[4]) == ("TTL" in other[4])
            there = client.query(columns, parameters={"d": database, "t": mine[0]}).result_rows
            assert (
                there == client.query(columns, parameters={"d": plain, "t": other[0]}).result_rows
            )
            window = re.search(r"non_replicated_deduplication_window = (\d+)", other[4])
            if window:
                assert f" replicated_deduplication_window = {window[1]}" in mine[4]
                assert "replicated_deduplication_window_seconds = 604800" in mine[4]
                assert "non_replicated" not in mine[4]
    finally:
        client.database = database
        client.command(f"DROP DATABASE IF EXISTS {plain} SYNC")


def test_every_statement_of_a_migration_run_names_the_cluster(client, database):
    """Database, tables and TTL alike; nothing is made on one node only."""
    one = OneNode(client)
    migrate(one, database, KEEP, cluster="it's")
    assert all("ON CLUSTER 'it\\'s'" in statement for statement in one.told)
    ttl = [statement for statement in one.told if "MODIFY TTL" in statement]
    assert len(ttl) >= 8
    assert all("_local`" in statement for statement in ttl)


def test_rows_of_one_key_go_to_one_shard():
    """pair_id where it is in the sorting key; else another column of it, never one outside."""
    shards = {}
    for statement in [each for migration in MIGRATIONS for each in migration.statements]:
        if statement.startswith("CREATE TABLE"):
            local, spread = render(statement, "c", "d")
            name = re.search(r"`d`\.`(\w+)_local`", local)[1]
            shards[name] = re.search(r"sipHash64\((\w+)\)\)\Z", spread)[1]
            assert re.search(rf"ORDER BY [^\n]*\b{shards[name]}\b", local)
    assert {name for name, key in shards.items() if key == "pair_id"} == {
        "exchanges",
        "bodies",
        "pairs",
    }
    assert shards["dead_letters"] == "source"
    assert {
        shards[name]
        for name in (
            "windows",
            "window_totals",
            "accounting",
            "workers",
            "verdicts",
            "waivers",
            "events",
        )
    } == {"experiment"}


@pytest.mark.parametrize(
    ("statement", "tables"),
    [
        ("ALTER TABLE t ADD COLUMN IF NOT EXISTS a UInt8, DROP COLUMN b", ["t_local", "t"]),
        ("ALTER TABLE `t` MODIFY TTL toDateTime(at) + toIntervalSecond(5)", ["t_local"]),
        ("ALTER TABLE t DELETE WHERE a IN (1, 2)", ["t_local"]),
        ("ALTER TABLE t MODIFY SETTING x = 1, y = 2", ["t_local"]),
    ],
)
def test_an_alter_reaches_what_it_is_about(statement, tables):
    """Columns stand in both tables; rows, TTL and settings in the local one."""
    assert [
        re.search(r"`d`\.`(\w+)` ON CLUSTER 'c'", each)[1] for each in render(statement, "c", "d")
    ] == tables


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE TABLE t (a UInt8) ENGINE = Memory", "t: Memory cannot be replicated"),
        ("CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a", "none of pair_id"),
        ("ALTER TABLE t ADD COLUMN a UInt8, DELETE WHERE b", "write two"),
    ],
)
def test_what_cannot_be_spread_is_refused_by_name(statement, said):
    """A migration that would be wrong on a cluster does not get that far."""
    with pytest.raises(ValueError, match=said):
        render(statement, "c", "d")


def test_other_statements_are_as_they_are():
    """INSERT and SELECT go to the distributed table by its plain name."""
    for statement in ("INSERT INTO t SELECT 1", "SELECT 1"):
        assert render(statement, "c", "d") == [statement]


def test_the_settings_of_a_clusters_clients_are_known_to_the_engine(client):
    """Each is a setting by that name, and each differs from the engine's default."""
    for name, value in cluster.SETTINGS.items():
        (row,) = client.query(
            "SELECT default FROM system.settings WHERE name = {n:String}", parameters={"n": name}
        ).result_rows
        assert row[0] != str(value), name
    with pytest.raises(DatabaseError):
        client.query("SELECT 1", settings={"distributed_foreground_nothing": 1})
