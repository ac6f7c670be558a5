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
from collector.tombstones import KEPT, PURGED, Purged, bury

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clickhouse_connect.driver.client import Client

_PAIRS_AT_ONCE = 2000  # ids of one statement: a server takes 128 KiB a parameter

# ruff: noqa: S608 every statement is made of the constants of this module
_THEIRS = """
    WHERE subject = {subject:String}
        AND arrived_at <= fromUnixTimestamp64Nano({until_ns:Int64}, 'UTC')
"""
_QUOTING = " WHERE position(value, {mark:String}) > 0"
_KEPT = ", ".join(KEPT)

_HELD = {
    "bodies": "SELECT count() FROM bodies" + _THEIRS,
    "dead_letters": "SELECT count() FROM dead_letters" + _QUOTING,
    "errors": "SELECT countIf(error != '') FROM exchanges" + _THEIRS,
    "exchanges": "SELECT count() FROM exchanges" + _THEIRS,
}
_TEXTS = (
    "ALTER TABLE bodies DELETE" + _THEIRS,
    "ALTER TABLE exchanges UPDATE error = ''" + _THEIRS + "AND error != ''",
    "ALTER TABLE dead_letters DELETE" + _QUOTING,
)
_PAIRS = "SELECT DISTINCT pair_id FROM exchanges" + _THEIRS
_WITHOUT_PAIRS = "ALTER TABLE pairs DELETE WHERE pair_id IN {ids:Array(String)}"
_REMAINS = (
    f"INSERT INTO exchanges ({_KEPT}, outcome) "
    f"SELECT {_KEPT}, '{PURGED}' FROM exchanges FINAL" + _THEIRS
)
_WITHOUT_MEASURES = "ALTER TABLE exchanges DELETE" + _THEIRS


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
    return erase(client, subject, bury(client, subject, at_ns, measures=measures), cluster)


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
