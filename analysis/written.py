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
from analysis.waivers import Waiver

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
class Written:
    """The newest verdict that was written about one comparison."""

    verdict: str
    reason: str
    part: Mapping[str, Any]
    at_ns: int
    """What orders verdicts: when it was judged, or just after the one before where a clock that
    was set back says something earlier."""
    rejected: str | None
    rejected_ns: int | None = None
    """When it was rejected first (UTC, ns)."""
    rejected_by: frozenset[str] = frozenset()
    """The metrics that the first reject was for."""
    judged_ns: int = 0
    """When it was judged, by the clock of that moment (UTC, ns)."""


def written(client: Client, settings: Settings, candidate: str) -> Written | None:
    """The newest verdict of the candidate's comparison; None before the first."""
    rows = client.query(sql("last_verdict"), parameters=settings.scope(candidate)).result_rows
    if not rows:
        return None
    verdict, reason, part, at_ns, rejected, rejected_part, rejected_ns = rows[0]
    by = _failed(json.loads(rejected_part)) if rejected else frozenset[str]()
    since_ns = rejected_ns if rejected else None
    tree = json.loads(part)
    judged_ns = judged_at_ns(tree, at_ns)
    tree.pop(JUDGED_AT, None)
    return Written(verdict, reason, tree, at_ns, rejected or None, since_ns, by, judged_ns)


def judged_at_ns(part: Mapping[str, Any], at_ns: int) -> int:
    """When a written part was judged (UTC, ns); `at_ns` where it does not say so."""
    said = part.get(JUDGED_AT)
    return at_ns if said is None else int(datetime.fromisoformat(said).timestamp()) * 10**9


def _failed(part: Mapping[str, Any]) -> frozenset[str]:
    """The critical metrics that fail in a written verdict."""
    return frozenset(
        name
        for name, figures in part["metrics"].items()
        if figures["state"] == "fail" and figures["critical"]
    )


def still_rejected(last: Written | None, waived: Mapping[str, Waiver]) -> str | None:
    """The reason of an earlier reject; none where all that it was for is waived now."""
    if last is None or last.rejected is None:
        return None
    return None if last.rejected_by and last.rejected_by <= waived.keys() else last.rejected


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
