"""Judging from stored windows, and the verdicts that were written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from analysis.accounting import NO_GAP, Account, coverage
from analysis.compare.sample import Sample
from analysis.comparison import Start, started
from analysis.evidence import Contrast, samples
from analysis.judge import Evidence, Judgement, judge
from analysis.queries import sql
from analysis.report.document import Counted, candidate_part
from analysis.settings import Settings
from analysis.windows import PRIMARY

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

REPORTED = (
    "ttft_any.p50",
    "ttft_any.p95",
    "tpot.mean",
    "itl_p99.p50",
    "e2e.p50",
    "e2e.p95",
    "tokens_per_s.ratio",
    "output_tokens.ratio",
    "events_per_read.ratio",
    "failure.rate",
    "mismatch.rate",
)
"""Read in every report, gated or not."""
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
    rejected: str | None


@dataclass(frozen=True, slots=True)
class Judged:
    """One candidate, judged now."""

    judgement: Judgement
    counted: Counted
    part: dict[str, Any]


def _scope(settings: Settings, arm: str) -> dict[str, str]:
    return {
        "experiment": settings.experiment,
        "arm": arm,
        "comparison": settings.comparisons[arm],
    }


def written(client: Client, settings: Settings, candidate: str) -> Written | None:
    """The newest verdict of the candidate's comparison; None before the first."""
    rows = client.query(sql("last_verdict"), parameters=_scope(settings, candidate)).result_rows
    if not rows:
        return None
    verdict, reason, part, at_ns, rejected = rows[0]
    return Written(verdict, reason, json.loads(part), at_ns, rejected or None)


def write(client: Client, settings: Settings, candidate: str, judged: Judged, now_ns: int) -> None:
    """Append the verdict with its part of the report."""
    row = [
        datetime.fromtimestamp(now_ns / 1e9, UTC),
        settings.experiment,
        settings.comparisons[candidate],
        candidate,
        judged.judgement.verdict,
        judged.judgement.reason,
        judged.part["coverage"],
        settings.config_hash,
        settings.policy_hash,
        json.dumps(judged.part, allow_nan=False),
    ]
    client.insert("verdicts", [row], column_names=_COLUMNS)


def judge_now(
    client: Client, settings: Settings, candidate: str, account: Account, last: Written | None
) -> Judged:
    """Judge one candidate from its stored windows; nothing is written."""
    start = dict(started(client, settings, candidate)).get(settings.comparisons[candidate])
    counted, share = _counted(client, settings, candidate, account, start)
    reference = settings.control or PRIMARY
    judged_by = _samples(client, settings, candidate, reference)
    evidence = Evidence(
        candidate=candidate,
        reference=reference,
        samples=judged_by,
        against_primary=judged_by
        if reference == PRIMARY
        else _samples(client, settings, candidate, PRIMARY),
        test_bed=_samples(client, settings, settings.control, PRIMARY) if settings.control else {},
        coverage=share,
        attempt=start.attempt if start else 1,
        span_s=float((counted.until_s or 0) - (counted.from_s or 0)),
        rejected=last.rejected if last else None,
    )
    judgement = judge(settings.policy, evidence, REPORTED)
    return Judged(judgement, counted, candidate_part(evidence, judgement, counted))


def _samples(client: Client, settings: Settings, arm: str, reference: str) -> dict[str, Sample]:
    contrast = Contrast(settings.experiment, settings.comparisons[arm], arm, reference)
    names = dict.fromkeys((*settings.policy.metrics, *REPORTED))
    return samples(client, contrast, names, settings.policy.blocks)


def _counted(
    client: Client, settings: Settings, candidate: str, account: Account, start: Start | None
) -> tuple[Counted, float | None]:
    """Pairs since the comparison's start, and their coverage."""
    scope = _scope(settings, candidate)
    held, judged, excluded, undefined, first_s, until_s, windows = client.query(
        sql("pair_totals"), parameters={**scope, "reference": PRIMARY}
    ).result_rows[0]
    ((late,),) = client.query(sql("late"), parameters=scope).result_rows
    dropped = account.dropped_total - (start.dropped if start else 0)
    lost = max(account.lost - (start.lost if start else 0), 0)
    captured = account.captured - (start.captured if start else 0)
    pending = account.pending + max(captured - held, 0)
    counted = Counted(
        sampled=held + dropped + lost + pending,
        complete=judged,
        pending=pending,
        excluded=excluded,
        undefined=undefined,
        late=late,
        from_s=first_s if windows else None,
        until_s=until_s if windows else None,
    )
    outside = sum(excluded.get(reason, 0) for reason in NO_GAP)
    return counted, coverage(judged, held, dropped, lost, outside)
