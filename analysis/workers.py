"""What the store says of workers: how far they have come, what they counted, what arrived."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from analysis.accounting import Account, Count, accounts
from analysis.closing import Boot, Progress, Stored, live, marks, settle, watched, watermark
from analysis.queries import sql
from analysis.settings import Settings

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client


@dataclass(frozen=True)
class Standing:
    """How far everything has come.

    Attributes:
        progress: to be given to the next look.
        watermark_ns: windows that end at or before it are closed; None: none is.
        accounts: every arm's accounting.
        ended: no worker may still send something.
    """

    progress: Progress
    watermark_ns: int | None
    accounts: Mapping[str, Account]
    ended: bool = False


def standing(client: Client, settings: Settings, progress: Progress, now_ns: int) -> Standing:
    """Read workers, stored exchanges and counters, in that order: what is newer only adds."""
    scope = {"experiment": settings.experiment, "config_hash": settings.config_hash}
    counts = [
        Count(boot_id, arm, counter, reason, value)
        for _, boot_id, arm, counter, reason, value in client.query(
            sql("counters"), parameters=scope
        ).result_rows
    ]
    boots = [Boot(*row) for row in client.query(sql("boots"), parameters=scope).result_rows]
    progress = watched(progress, boots, monotonic_ns())
    alive = live(boots, now_ns, progress.still)
    awaited = marks(progress, alive)
    rows = client.query(
        sql("stored"),
        parameters={
            **scope,
            "boots": list(awaited),
            "marks": [mark.high_sequence for mark in awaited.values()],
        },
    ).result_rows
    stored = _by_boot(rows)
    after = settle(progress, awaited, stored)
    captured = {(boot_id, arm): held for _, boot_id, arm, held, *_ in rows}
    unreadable = Counter[str]()
    for row in rows:
        unreadable[row[2]] += row[6]
    unheard = {boot_id for boot_id in stored if all(b.boot_id != boot_id for b in boots)}
    return Standing(
        progress=after,
        watermark_ns=watermark(after, boots, stored, now_ns, settings.window_seconds),
        accounts=accounts(counts, captured, alive.keys() | unheard, unreadable),
        ended=not (alive or unheard),
    )


def _by_boot(rows: Sequence[Sequence[Any]]) -> dict[str, Stored]:
    found: dict[str, Stored] = {}
    for _, boot_id, _, _, awaited, last_ns, _ in rows:
        old = found.get(boot_id, Stored(0, 0))
        found[boot_id] = Stored(old.awaited + awaited, max(old.last_ns, last_ns))
    return found
