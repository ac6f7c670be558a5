"""Forgetting a subject: its texts, or its measures too, in every table; and that it was forgotten.

Rules:
1. The tombstone is written first: what a collector stores from then on is judged by it.
2. It holds for records that had arrived by then; later requests of the same subject are new ones.
   What the store holds had arrived, though a clock that was set back since has stamped it later.
3. A forgotten exchange leaves a row of its sequence number and times of arrival, without measures,
   so that the books balance: it is neither lost nor late, its pairs have an unknown outcome.
4. Every step can be done again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from collector.cluster import render
from collector.store_errors import store_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clickhouse_connect.driver.client import Client

PURGED = "purged"
"""The outcome of an exchange whose measures were forgotten."""

KEPT = (
    "experiment", "config_hash", "arrived_at", "started_at", "pair_id", "arm", "role", "replica",
    "probe", "attach", "worker", "boot_id", "sequence", "transport", "weight", "version",
)  # fmt: skip
"""What stays of such an exchange."""

_PAIRS_AT_ONCE = 2000  # ids of one statement: a server takes 128 KiB a parameter

_HELD = {
    "bodies": """
        SELECT count() FROM bodies
        WHERE subject = {subject:String}
            AND arrived_at <= fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
    """,
    "dead_letters": "SELECT count() FROM dead_letters WHERE position(value, {mark:String}) > 0",
    "errors": """
        SELECT countIf(error != '') FROM exchanges
        WHERE subject = {subject:String}
            AND arrived_at <= fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
    """,
    "exchanges": """
        SELECT count() FROM exchanges
        WHERE subject = {subject:String}
            AND arrived_at <= fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
    """,
}
_TEXTS = (
    """
    ALTER TABLE bodies DELETE
    WHERE subject = {subject:String}
        AND arrived_at <= fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
    """,
    """
    ALTER TABLE exchanges UPDATE error = ''
    WHERE subject = {subject:String} AND error != ''
        AND arrived_at <= fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
    """,
    "ALTER TABLE dead_letters DELETE WHERE position(value, {mark:String}) > 0",
)
_PAIRS = """
    SELECT DISTINCT pair_id FROM exchanges
    WHERE subject = {subject:String}
        AND arrived_at <= fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
"""
_WITHOUT_PAIRS = "ALTER TABLE pairs DELETE WHERE pair_id IN {ids:Array(String)}"
_REMAINS = """
    INSERT INTO exchanges
    (
        experiment, config_hash, arrived_at, started_at, pair_id, arm, role, replica, probe,
        attach, worker, boot_id, sequence, transport, weight, version, outcome
    )
    SELECT
        experiment, config_hash, arrived_at, started_at, pair_id, arm, role, replica, probe,
        attach, worker, boot_id, sequence, transport, weight, version, 'purged'
    FROM exchanges FINAL
    WHERE subject = {subject:String}
        AND arrived_at <= fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
"""
_WITHOUT_MEASURES = """
    ALTER TABLE exchanges DELETE
    WHERE subject = {subject:String}
        AND arrived_at <= fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
"""


_NEWEST = tuple(
    f"SELECT toUnixTimestamp64Nano(max(arrived_at)) FROM {table} WHERE subject = {{subject:String}}"  # noqa: S608 names of ours
    for table in ("bodies", "exchanges")
)


@dataclass(frozen=True)
class Purged:
    """How far a subject is forgotten: arrivals (UTC, ns) whose texts, whose measures are."""

    texts_ns: int
    measures_ns: int = 0


@dataclass(frozen=True)
class Found:
    """Rows of a subject that a purge found, and forgot."""

    bodies: int
    dead_letters: int
    exchanges: int
    """With measures that are forgotten; 0 where only texts are."""
    errors: int = 0
    """Exchanges with an error's text, which can quote the request."""

    def __bool__(self) -> bool:
        return any((self.bodies, self.dead_letters, self.exchanges, self.errors))


def purge(
    client: Client, subject: str, at_ns: int, *, measures: bool, cluster: str | None = None
) -> Found:
    """Forget what had arrived of `subject` by `at_ns` (UTC), now and when it is delivered again.

    Raises:
        StoreUnavailable, StoreRefused: not all is forgotten; do it again.
    """
    columns = ["subject", "at", "measures"]
    with store_errors():
        client.insert("purges", [[subject, at_ns, int(measures)]], column_names=columns)
    return erase(client, subject, Purged(at_ns, at_ns if measures else 0), cluster)


def newest_arrival(client: Client, subject: str) -> int:
    """The last arrival of the subject that the store holds (UTC, ns); 0: none. It may lie ahead of
    the clock that says what has arrived by now, where that was set back.

    Raises:
        StoreUnavailable, StoreRefused: as `store_errors` says.
    """
    parameters = {"subject": subject}
    with store_errors():
        return max(
            int(client.query(each, parameters=parameters).result_rows[0][0]) for each in _NEWEST
        )


def purges(client: Client) -> dict[str, Purged]:
    """All tombstones, by subject.

    Raises:
        StoreUnavailable, StoreRefused: as `store_errors` says.
    """
    with store_errors():
        rows = client.query(
            "SELECT subject, toUnixTimestamp64Nano(max(at)), "
            "toUnixTimestamp64Nano(maxIf(at, measures = 1)) FROM purges GROUP BY subject"
        ).result_rows
    return {str(subject): Purged(texts, measures) for subject, texts, measures in rows}


def held(client: Client, subject: str, purged: Purged) -> Found:
    """What the store holds of it that should be forgotten."""
    texts = _parameters(subject, purged.texts_ns)
    with store_errors():
        return Found(
            bodies=_count(client, "bodies", texts),
            dead_letters=_count(client, "dead_letters", texts),
            exchanges=_count(client, "exchanges", _parameters(subject, purged.measures_ns)),
            errors=_count(client, "errors", texts),
        )


def erase(client: Client, subject: str, purged: Purged, cluster: str | None = None) -> Found:
    """Take away what the store holds of it, from the disk too; what it was.

    Raises:
        StoreUnavailable, StoreRefused: not all is gone; do it again.
    """
    found = held(client, subject, purged)
    with store_errors():
        if found.exchanges:
            _forget_measures(client, _parameters(subject, purged.measures_ns), cluster)
        texts = _parameters(subject, purged.texts_ns)
        for statement in _TEXTS if found else ():
            _alter(client, statement, texts, cluster)
    return found


def mark_of(subject: str) -> bytes:
    """What a record of the subject holds in its wire form."""
    return f'"subject":"{subject}"'.encode()


def _forget_measures(client: Client, by: Mapping[str, Any], cluster: str | None) -> None:
    """Pairs first: they are found by the exchanges, which go last."""
    rows = client.query(_PAIRS, parameters=dict(by)).result_rows
    pairs = [str(row[0]) for row in rows]
    for first in range(0, len(pairs), _PAIRS_AT_ONCE):
        ids = {"ids": pairs[first : first + _PAIRS_AT_ONCE]}
        _alter(client, _WITHOUT_PAIRS, ids, cluster)
    client.command(_REMAINS, parameters=dict(by))
    _alter(client, _WITHOUT_MEASURES, by, cluster)


def _alter(client: Client, statement: str, by: Mapping[str, Any], cluster: str | None) -> None:
    """On all servers that hold the table, and done when it returns."""
    rendered = [statement] if cluster is None else render(statement, cluster, client.database or "")
    for each in rendered:
        client.command(each, parameters=dict(by), settings={"mutations_sync": 2})


def _count(client: Client, table: str, by: Mapping[str, Any]) -> int:
    return int(client.query(_HELD[table], parameters=dict(by)).result_rows[0][0])


def _parameters(subject: str, until_ns: int) -> dict[str, Any]:
    return {"subject": subject, "until_ns": until_ns, "mark": mark_of(subject).decode()}
