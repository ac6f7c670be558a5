"""Verdicts as they were written: the newest of a comparison, and the reject that stays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from analysis.moments import instant, shown
from analysis.queries import sql
from analysis.settings import Settings

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

    from analysis.verdicts import Judged

STEP_NS = 1_000_000
JUDGED_AT = "judged_at"
_COLUMNS = (
    "at",
    "experiment",
    "comparison",
    "candidate",
    "verdict",
    "reason",
    "coverage",
    "config_hash",
    "policy_hash",
    "report",
)


@dataclass(frozen=True, slots=True)
class Rejected:
    """An earlier reject: why, and since when (UTC, ns)."""

    reason: str
    since_ns: int


@dataclass(frozen=True, slots=True)
class Written:
    """The newest verdict that was written about one comparison."""

    verdict: str
    reason: str
    part: Mapping[str, Any]
    at_ns: int
    """What orders verdicts: when it was judged, or just after the one before where a clock that
    was set back says something earlier."""
    rejected: Rejected | None
    """The comparison's first."""
    judged_ns: int = 0
    """When it was judged, by the clock of that moment (UTC, ns)."""


def written(client: Client, settings: Settings, candidate: str) -> Written | None:
    """The newest verdict of the candidate's comparison; None before the first."""
    rows = client.query(sql("last_verdict"), parameters=settings.scope(candidate)).result_rows
    if not rows:
        return None
    verdict, reason, part, at_ns, why, since_ns = rows[0]
    rejected = Rejected(why, since_ns) if why else None
    tree = json.loads(part)
    judged_ns = judged_at_ns(tree, at_ns)
    tree.pop(JUDGED_AT, None)
    return Written(verdict, reason, tree, at_ns, rejected, judged_ns)


def judged_at_ns(part: Mapping[str, Any], at_ns: int) -> int:
    """When a written part was judged (UTC, ns); `at_ns` where it does not say so."""
    said = part.get(JUDGED_AT)
    return at_ns if said is None else int(datetime.fromisoformat(said).timestamp()) * 10**9


def write(
    client: Client,
    settings: Settings,
    candidate: str,
    judged: Judged,
    now_ns: int,
) -> None:
    """Append the verdict with its part of the report: the experiment's newest, also by a clock that
    was set back; the part says what that clock said.
    """
    rows = client.query(sql("newest"), parameters={"experiment": settings.experiment}).result_rows
    at_ns = max([now_ns, *(newest_ns + STEP_NS for _, _, newest_ns in rows)])
    row = [
        instant(at_ns),
        settings.experiment,
        settings.comparisons[candidate],
        candidate,
        judged.judgement.verdict,
        judged.judgement.reason,
        judged.part["coverage"],
        settings.config_hash,
        settings.policy_hash,
        json.dumps({**judged.part, JUDGED_AT: shown(now_ns)}, allow_nan=False),
    ]
    client.insert("verdicts", [row], column_names=_COLUMNS)
