"""Pairs of one candidate since its comparison began: judged, excluded, waiting; and the loads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from analysis.accounting import NEVER_WHOLE, NO_GAP, Account, coverage
from analysis.case import Counted
from analysis.comparison import Start, started
from analysis.queries import sql
from analysis.settings import Settings
from analysis.windows import PRIMARY

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client


def counted_pairs(
    client: Client,
    settings: Settings,
    candidate: str,
    account: Account,
    start: Start | None,
    *,
    controls: bool = False,
) -> tuple[Counted, float | None]:
    """Pairs since the comparison's start, and their coverage.

    `controls`: the arm is the control, whose greedy probes are no pairs with the primary.
    """
    scope = settings.scope(candidate)
    totals = _totals(client, settings, candidate, PRIMARY)
    held, judged, excluded, undefined, first_s, until_s, windows, probes, unprobed, *span = totals
    if controls and windows:
        held -= _probes_held(client, settings, candidate, first_s, until_s)
    ((late,),) = client.query(sql("late"), parameters=scope).result_rows
    dropped = max(account.dropped_total - (start.dropped if start else 0), 0)
    dropped_by = _since(account.dropped, start.dropped_by if start else {})
    never_whole = min(sum(dropped_by.get(reason, 0) for reason in NEVER_WHOLE), dropped)
    lost = max(account.lost - (start.lost if start else 0), 0)
    captured = account.captured - (start.captured if start else 0)
    waiting = max(captured - held, 0)
    controlled, controlled_undefined = _controlled(client, settings, candidate)
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
        controlled=controlled,
        controlled_undefined=controlled_undefined,
        gaps=_gaps(dropped_by, lost, [excluded, unprobed], held - judged - probes),
        judged_from_s=span[0] if judged else None,
        judged_until_s=span[1] if judged else None,
    )
    outside = sum(excluded.get(reason, 0) + unprobed.get(reason, 0) for reason in NO_GAP)
    return counted, coverage(judged + probes, held, dropped - never_whole, lost, outside)


def control_coverage(
    client: Client, settings: Settings, accounts: Mapping[str, Account]
) -> tuple[float | None, Mapping[str, int]]:
    """The control's own coverage against the primary, and what keeps it from 1.

    A request that the control was to answer and did not is judged for nobody: were it left out
    quietly, a control that drops what comes in busy hours would hide what a candidate does there.
    """
    name = settings.control
    if name is None:
        return None, {}
    start = dict(started(client, settings, name)).get(settings.comparisons[name])
    account = accounts.get(name, Account())
    counted, share = counted_pairs(client, settings, name, account, start, controls=True)
    return share, counted.gaps


def _probes_held(client: Client, settings: Settings, arm: str, from_s: int, until_s: int) -> int:
    """Greedy probes of an arm in these windows (seconds since 1970)."""
    scope = {
        "experiment": settings.experiment,
        "config_hash": settings.config_hash,
        "arm": arm,
        "from_ns": from_s * 10**9,
        "until_ns": until_s * 10**9,
    }
    return int(client.query(sql("probes_held"), parameters=scope).result_rows[0][0])


def _totals(client: Client, settings: Settings, candidate: str, reference: str) -> Sequence[Any]:
    scope = {**settings.scope(candidate), "reference": reference}
    found: Sequence[Any] = client.query(sql("pair_totals"), parameters=scope).result_rows[0]
    return found


def _controlled(
    client: Client, settings: Settings, candidate: str
) -> tuple[int | None, Mapping[str, int]]:
    """Judged pairs that the control answered too, and what they lack against it."""
    if settings.control is None:
        return None, {}
    _, judged, _, undefined, *_ = _totals(client, settings, candidate, settings.control)
    return int(judged), undefined


def _since(now: Mapping[str, int], then: Mapping[str, int]) -> dict[str, int]:
    return {reason: max(count - then.get(reason, 0), 0) for reason, count in now.items()}


def _gaps(
    dropped: Mapping[str, int], lost: int, excluded: Iterable[Mapping[str, int]], unjudged: int
) -> dict[str, int]:
    """What keeps coverage from 1, by reason, the most first."""
    found = Counter({r: n for r, n in dropped.items() if r not in NEVER_WHOLE})
    found["lost"] += lost
    left_out = 0
    for one in excluded:
        left_out += sum(one.values())
        found.update({reason: n for reason, n in one.items() if reason not in NO_GAP})
    found["the primary's answer is missing"] += max(unjudged - left_out, 0)
    return {reason: n for reason, n in found.most_common() if n}


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
