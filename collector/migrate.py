"""Tables by numbered .sql files, each applied once, in order; and how long their rows stay."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from collector.cluster import LOCAL, quoted, render
from collector.sql import split_statements
from collector.store_errors import store_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clickhouse_connect.driver.client import Client

FOLDER = Path(__file__).parent / "migrations"
_LONGEST_S = 50 * 365 * 86_400
_FILE = re.compile(r"(\d{4})_[a-z0-9_]+\.sql\Z")

_MIGRATIONS = """
CREATE TABLE IF NOT EXISTS migrations
(
    name        String,
    checksum    String,
    applied_at  DateTime64(9, 'UTC') DEFAULT now64(9, 'UTC')
)
ENGINE = ReplacingMergeTree
ORDER BY name
"""

# Which column a table's rows age by, and which of the two retentions holds for it. What is not
# named here stays: verdicts, waivers and events are the experiment's record.
_AGE = {
    "bodies": ("arrived_at", "bodies_s"),
    "dead_letters": ("at", "bodies_s"),
    "exchanges": ("arrived_at", "measures_s"),
    "pairs": ("arrived_at", "measures_s"),
    "windows": ("window", "measures_s"),
    "window_totals": ("window", "measures_s"),
    "accounting": ("at", "measures_s"),
    "workers": ("at", "measures_s"),
}


class MigrationError(Exception):
    """The files and what was applied contradict each other; names the file."""


@dataclass(frozen=True)
class Retention:
    """Seconds that rows are kept: `bodies_s` texts and dead letters, `measures_s` the figures."""

    bodies_s: int
    measures_s: int


@dataclass(frozen=True)
class Migration:
    """One file: its name, statements, and SHA-256 of its bytes."""

    name: str
    statements: tuple[str, ...]
    checksum: str


def migrate(
    client: Client,
    database: str,
    retention: Retention,
    folder: Path = FOLDER,
    cluster: str | None = None,
) -> list[str]:
    """Bring the database up to date and return what was done, one line each.

    The database is created if missing, and the client is left on it. Every statement can be run
    again (IF NOT EXISTS), so a run that was cut short is finished by the next one. With `cluster`
    the tables are replicated and distributed over it, as `collector.cluster` renders them.

    Raises:
        MigrationError: a file that was applied has changed or is gone, or a name is none.
        StoreUnavailable, StoreRefused: as `store_errors` says.
    """
    migrations = read_migrations(folder)
    with store_errors():
        for statement in _rendered(
            f"CREATE DATABASE IF NOT EXISTS {quoted(database)}", cluster, database
        ):
            client.command(statement, use_database=False)
        client.database = database
        _run(client, _MIGRATIONS, cluster)
        done = [_apply(client, migration, cluster) for migration in _pending(client, migrations)]
        return done + _retain(client, retention, cluster)


def _rendered(statement: str, cluster: str | None, database: str) -> list[str]:
    return [statement] if cluster is None else render(statement, cluster, database)


def _run(client: Client, statement: str, cluster: str | None) -> None:
    for each in _rendered(statement, cluster, client.database or ""):
        client.command(each)


def read_migrations(folder: Path) -> list[Migration]:
    """The folder's files by number."""
    migrations: dict[str, Migration] = {}
    for path in sorted(folder.glob("*.sql")):
        name = _FILE.match(path.name)
        if name is None:
            raise MigrationError(f"{path.name}: not named NNNN_words.sql")
        if name[1] in migrations:
            raise MigrationError(f"{path.name}: the number {name[1]} is taken")
        content = path.read_bytes()
        statements = tuple(split_statements(content.decode()))
        migrations[name[1]] = Migration(path.name, statements, hashlib.sha256(content).hexdigest())
    return list(migrations.values())


def _pending(client: Client, migrations: Sequence[Migration]) -> list[Migration]:
    rows = client.query("SELECT name, checksum FROM migrations FINAL ORDER BY name").result_rows
    applied: dict[str, str] = {str(row[0]): str(row[1]) for row in rows}
    if gone := applied.keys() - {migration.name for migration in migrations}:
        raise MigrationError(
            f"{min(gone)}: was applied and is not among the files: a newer shadow made these "
            "tables; run that one, or see docs/operations.md, Back to an older version"
        )
    for migration in migrations:
        if applied.get(migration.name, migration.checksum) != migration.checksum:
            raise MigrationError(f"{migration.name}: was applied and has changed since")
    return [migration for migration in migrations if migration.name not in applied]


def behind(client: Client) -> str | None:
    """Which migrations the database still lacks, in one line; None: none.

    A reader that meets an unknown column asks: a database that is being made has them soon.

    Raises:
        MigrationError, StoreUnavailable, StoreRefused: as `migrate` does.
    """
    with store_errors():
        lacking = _pending(client, read_migrations(FOLDER))
    if not lacking:
        return None
    return f"the store lacks {len(lacking)} migrations, {lacking[0].name} first: shadow migrate"


def _apply(client: Client, migration: Migration, cluster: str | None) -> str:
    for statement in migration.statements:
        _run(client, statement, cluster)
    client.insert(
        "migrations", [[migration.name, migration.checksum]], column_names=["name", "checksum"]
    )
    return f"applied {migration.name}"


def _retain(client: Client, retention: Retention, cluster: str | None) -> list[str]:
    rows = client.query(
        "SELECT name, create_table_query FROM system.tables WHERE database = currentDatabase()"
    ).result_rows
    stands = {str(row[0]): " ".join(str(row[1]).replace("`", "").split()) for row in rows}
    changes = []
    for table, (column, kind) in sorted(_AGE.items()):
        clause = _ttl(column, getattr(retention, kind))
        if clause in stands.get(table if cluster is None else table + LOCAL, clause):
            continue
        _run(client, f"ALTER TABLE {quoted(table)} MODIFY {clause}", cluster)
        changes.append(f"{table}: {clause}")
    return changes


def _ttl(column: str, seconds: int) -> str:
    # DateTime ends in 2106: a longer retention would wrap around and drop every row at once.
    return f"TTL toDateTime({column}) + toIntervalSecond({min(seconds, _LONGEST_S)})"
