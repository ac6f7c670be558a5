"""Judging from stored windows, and the verdicts that were written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.accounting import NO_GAP, Account, coverage
from analysis.compare.sample import Sample
from analysis.comparison import Start, started
from analysis.evidence import Contrast, samples
from analysis.judge import Evidence, Judgement, judge
from analysis.pair_file.parts import parts_of
from analysis.pair_file.samples import CANDIDATE, CONTROL
from analysis.pair_file.samples import PRIMARY as PRIMARY_SIDE
from analysis.queries import sql
from analysis.recent import recent
from analysis.report.document import Counted, candidate_part
from analysis.segments import explored
from analysis.settings import Settings
from analysis.waivers import Waiver, active
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
    rejected_by: frozenset[str] = frozenset()
    """The metrics that the first reject was for."""


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
    verdict, reason, part, at_ns, rejected, rejected_part = rows[0]
    by = _failed(json.loads(rejected_part)) if rejected else frozenset[str]()
    return Written(verdict, reason, json.loads(part), at_ns, rejected or None, by)


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
    client: Client,
    settings: Settings,
    candidate: str,
    accounts: Mapping[str, Account],
    last: Written | None,
    now_ns: int,
    *,
    in_parts: bool = False,
) -> Judged:
    """Judge one candidate from its stored windows; nothing is written.

    Args:
        client: of the store.
        settings: the experiment.
        candidate: which.
        accounts: every arm's accounting.
        last: its newest written verdict.
        now_ns: the wall clock (UTC, ns); waivers end by it.
        in_parts: look at segments too; that reads pairs, not windows alone.
    """
    starts = started(client, settings, candidate)
    start = dict(starts).get(settings.comparisons[candidate])
    account = accounts.get(candidate, Account())
    counted, share = _counted(client, settings, candidate, account, start)
    reference = settings.control or PRIMARY
    judged_by = _samples(client, settings, candidate, reference)
    waived = active(client, settings.experiment, candidate, now_ns)
    span_s = float((counted.until_s or 0) - (counted.from_s or 0))
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
        span_s=span_s,
        rejected=still_rejected(last, waived),
        waived={name: one for name, one in waived.items() if name in settings.policy.metrics},
        loads=loads(settings, candidate, accounts, counted.sampled / span_s if span_s else 0.0),
        by_replica={candidate, reference} <= settings.replicas.keys(),
        incomparable=_incomparable(settings, counted),
        changed=_changed(starts, settings.comparisons[candidate]),
    )
    judgement = judge(settings.policy, evidence, REPORTED)
    parts = _in_parts(client, settings, candidate, reference, judgement) if in_parts else None
    return Judged(judgement, counted, candidate_part(evidence, judgement, counted, parts))


def _in_parts(
    client: Client, settings: Settings, candidate: str, reference: str, judgement: Judgement
) -> dict[str, Any] | None:
    """What the segments of the newest pairs say."""
    policy = settings.policy
    contrast = Contrast(settings.experiment, settings.comparisons[candidate], candidate, reference)
    names = [name for name in policy.metrics if judgement.readings[name].sample is not None]
    pairs = recent(client, contrast, [policy.metric_of(name)[0].name for name in names])
    if pairs is None:
        return None
    everyone = np.ones(len(pairs.at_s), bool)
    sides = (CANDIDATE, PRIMARY_SIDE if reference == PRIMARY else CONTROL)
    return explored(parts_of(pairs, everyone, policy, names, sides), policy, judgement)


def _changed(starts: list[tuple[str, Start]], comparison: str) -> str | None:
    """What a comparison that is not the first counts from."""
    if len(starts) < 2 or starts[0][0] == comparison:
        return None
    return "configuration changed (or the policy, or an engine): it counts from its own start"


def _incomparable(settings: Settings, counted: Counted) -> dict[str, str]:
    """The time to the first token where every request has earlier turns and there is no control."""
    turns = counted.undefined.get("multi_turn", 0)
    if settings.control is not None or not turns:
        return {}
    why = f"not comparable without a control: {turns:,} requests have earlier turns"
    return {
        name: why for name in settings.policy.metrics if name.startswith(("ttft", "server_ttft"))
    }


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


def samples_against_primary(client: Client, settings: Settings, arm: str) -> dict[str, Sample]:
    """What the stored windows say of an arm against the primary, by METRIC.STATISTIC."""
    return _samples(client, settings, arm, PRIMARY)


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
