"""Judging from stored windows, and the verdicts that were written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.accounting import Account
from analysis.case import Counted, Evidence
from analysis.compare.sample import Sample
from analysis.comparison import Start, started
from analysis.copies import PROBED, notes, of_probes, unprobed
from analysis.counted import control_coverage, counted_pairs, loads
from analysis.evidence import Contrast, samples
from analysis.judge import Judgement, judge
from analysis.lacking import lacking
from analysis.metrics import is_listed
from analysis.pair_file.parts import parts_of
from analysis.pair_file.samples import CANDIDATE, CONTROL
from analysis.pair_file.samples import PRIMARY as PRIMARY_SIDE
from analysis.recent import recent
from analysis.rejects import still_rejected
from analysis.report.candidate_part import candidate_part
from analysis.segments import explored
from analysis.settings import Settings
from analysis.silence import silent
from analysis.standstill import eaten, stood_still
from analysis.waivers import active
from analysis.windows import PRIMARY
from analysis.written import Written

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
OWN = "one's own metric: `shadow judge` reads it from a file of pairs, no stored answer has it"


@dataclass(frozen=True, slots=True)
class Judged:
    """One candidate, judged now."""

    judgement: Judgement
    counted: Counted
    part: dict[str, Any]


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
    counted, share = counted_pairs(client, settings, candidate, account, start)
    controls, control_gaps = control_coverage(client, settings, accounts)
    reference = settings.control or PRIMARY
    judged_by = _samples(client, settings, candidate, reference)
    waived = active(client, settings.experiment, candidate, now_ns)
    earlier = still_rejected(client, settings, candidate, last, waived)
    seen_s = float((counted.until_s or 0) - (counted.from_s or 0))
    evidence = Evidence(
        candidate=candidate,
        reference=reference,
        samples=judged_by,
        against_primary=judged_by
        if reference == PRIMARY
        else _samples(client, settings, candidate, PRIMARY),
        test_bed=_samples(client, settings, settings.control, PRIMARY) if settings.control else {},
        coverage=share,
        control_coverage=controls,
        control_gaps=control_gaps,
        attempt=start.attempt if start else 1,
        span_s=counted.judged_span_s,
        rejected=earlier.reason if earlier is not None else None,
        waived={name: one for name, one in waived.items() if name in settings.policy.metrics},
        loads=loads(settings, candidate, accounts, counted.sampled / seen_s if seen_s else 0.0),
        by_replica={candidate, reference} <= settings.replicas.keys(),
        incomparable=_incomparable(settings, counted)
        | unprobed(list(settings.policy.metrics), counted)
        | {name: OWN for name in settings.policy.metrics if not is_listed(name)},
        changed=_changed(starts, settings.comparisons[candidate]),
        counted=counted,
        notes=(
            *notes(candidate, reference, settings.copies, counted.probes),
            *stood_still(account),
            *eaten(account, counted),
        ),
        rejected_ns=earlier.since_ns if earlier is not None else now_ns,
        lacking=lacking(settings.policy, counted.complete, counted.undefined)
        if reference == PRIMARY
        else lacking(settings.policy, counted.controlled or 0, counted.controlled_undefined),
        silent=silent(client, settings, candidate, counted),
    )
    reported = (*REPORTED, *PROBED) if counted.probes else REPORTED
    judgement = judge(settings.policy, evidence, reported)
    parts = _in_parts(client, settings, candidate, reference, judgement) if in_parts else None
    return Judged(judgement, counted, candidate_part(evidence, judgement, counted, parts))


def _in_parts(
    client: Client, settings: Settings, candidate: str, reference: str, judgement: Judgement
) -> dict[str, Any] | None:
    """What the segments of the newest pairs say."""
    policy = settings.policy
    contrast = Contrast(settings.experiment, settings.comparisons[candidate], candidate, reference)
    names = [
        name
        for name in policy.metrics
        if judgement.readings[name].sample is not None and not of_probes(name)
    ]
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


def samples_against_primary(client: Client, settings: Settings, arm: str) -> dict[str, Sample]:
    """What the stored windows say of an arm against the primary, by METRIC.STATISTIC."""
    return _samples(client, settings, arm, PRIMARY)


def _samples(client: Client, settings: Settings, arm: str, reference: str) -> dict[str, Sample]:
    contrast = Contrast(settings.experiment, settings.comparisons[arm], arm, reference)
    names = dict.fromkeys((*settings.policy.metrics, *REPORTED, *PROBED))
    return samples(client, contrast, names, settings.policy.blocks)
