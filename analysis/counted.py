"""Pairs of one candidate since its comparison began: judged, excluded, waiting; and the loads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from analysis.accounting import NO_GAP, Account, coverage
from analysis.case import Counted
from analysis.comparison import Start
from analysis.queries import sql
from analysis.settings import Settings
from analysis.windows import PRIMARY

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client


def counted_pairs(
    client: Client, settings: Settings, candidate: str, account: Account, start: Start | None
) -> tuple[Counted, float | None]:
    """Pairs since the comparison's start, and their coverage."""
    scope = settings.scope(candidate)
    held, judged, excluded, undefined, first_s, until_s, windows, probes, unprobed = client.query(
        sql("pair_totals"), parameters={**scope, "reference": PRIMARY}
    ).result_rows[0]
    ((late,),) = client.query(sql("late"), parameters=scope).result_rows
    dropped = max(account.dropped_total - (start.dropped if start else 0), 0)
    lost = max(account.lost - (start.lost if start else 0), 0)
    captured = account.captured - (start.captured if start else 0)
    waiting = max(captured - held, 0)
    counted = Counted(
        sampled=held + dropped + lost + account.pending + waiting,
        complete=judged,
        pending=account.pending,
        waiting=waiting,
        excluded=excluded,
        undefined=undefined,
        late=late,
        from_s=first_s if windows else None,
        until_s=until_s if windows else None,
        copies=settings.copies.get(candidate, 1),
        probes=probes,
        probes_excluded=unprobed,
    )
    outside = sum(excluded.get(reason, 0) + unprobed.get(reason, 0) for reason in NO_GAP)
    return counted, coverage(judged + probes, held, dropped, lost, outside)


def loads(
    settings: Settings, candidate: str, accounts: Mapping[str, Account], rate: float
) -> dict[str, float]:
    """Requests a second that each arm saw, an engine replica where their number is stated.

    Args:
        settings: the experiment.
        candidate: the arm whose rate is known.
        accounts: every arm's; the primary serves what is eligible for mirroring, at least.
        rate: the candidate's requests a second.
    """
    mine = accounts.get(candidate)
    if mine is None or not mine.sampled or not rate:
        return {}
    seen = {candidate: mine.sampled, PRIMARY: mine.eligible}
    if settings.control in accounts:
        seen[settings.control or ""] = accounts[settings.control or ""].sampled
    return {
        arm: rate * count / mine.sampled / settings.replicas.get(arm, 1)
        for arm, count in seen.items()
        if count
    }
