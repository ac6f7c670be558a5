"""Tombstones: up to when a subject is forgotten, and what stays of an exchange that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from collector.store_errors import store_errors

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

PURGED = "purged"
"""The outcome of an exchange whose measures were forgotten."""

KEPT = (
    "experiment", "config_hash", "arrived_at", "started_at", "pair_id", "arm", "role", "replica",
    "probe", "attach", "worker", "boot_id", "sequence", "transport", "weight", "version",
)  # fmt: skip
"""What stays of such an exchange."""

_NEWEST = tuple(
    f"SELECT toUnixTimestamp64Nano(max(arrived_at)) FROM {table} WHERE subject = {{subject:String}}"  # noqa: S608 names of ours
    for table in ("bodies", "exchanges")
)


@dataclass(frozen=True)
class Purged:
    """How far a subject is forgotten: arrivals (UTC, ns) whose texts, whose measures are."""

    texts_ns: int
    measures_ns: int = 0


def bury(client: Client, subject: str, at_ns: int, *, measures: bool) -> Purged:
    """Write that all is forgotten that had arrived of `subject` by `at_ns` (UTC).

    Raises:
        StoreUnavailable, StoreRefused: as `store_errors` says.
    """
    columns = ["subject", "at", "measures"]
    with store_errors():
        client.insert("purges", [[subject, at_ns, int(measures)]], column_names=columns)
    return Purged(at_ns, at_ns if measures else 0)


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
