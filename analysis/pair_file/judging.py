"""A file of pairs, judged: report.json of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from analysis.case import Counted, Evidence
from analysis.judge import judge
from analysis.lacking import lacking, missing
from analysis.metrics import Kind, metrics
from analysis.pair_file.pairs import PairFile, Pairs, Tap
from analysis.pair_file.parts import parts_of, samples_of
from analysis.pair_file.samples import (
    BY_LOGS,
    BY_SUMS,
    CANDIDATE,
    CONTROL,
    PRIMARY,
    Mask,
    column_of,
    measured,
    tokens_per_s_by,
)
from analysis.policy import Policy
from analysis.report.candidate_part import candidate_part
from analysis.report.document import document
from analysis.segments import explored
from analysis.settings import Settings
from analysis.verdicts import REPORTED

NO_CONTROL = "lines without the control's values"
HOW_TOKENS = {
    BY_SUMS: "tokens_per_s is the ratio of sums: tokens over decode time",
    BY_LOGS: "tokens_per_s is the mean paired log-ratio: output_tokens and decode_ms are not there",
}


def known(policy: Policy) -> dict[str, Kind]:
    """Keys of a line that hold a metric's values, with its kind: the list's, and one's own."""
    own = (policy.metric_of(name)[0] for name in policy.metrics)
    kinds = {metric.name: metric.kind for metric in (*metrics().values(), *own)}
    return {**kinds, **{f"{name}_ms": kind for name, kind in kinds.items()}}


def judge_file(
    file: PairFile, policy: Policy, name: str, candidate: str | None = None
) -> dict[str, Any]:
    """report.json of a file.

    Args:
        file: its pairs.
        policy: margins, error levels, blocks.
        name: stands for the experiment.
        candidate: judge this one alone.
    """
    judged = {
        who: _judged(who, pairs, file.tap, policy)
        for who, pairs in file.candidates.items()
        if candidate in {None, who}
    }
    settings = Settings(
        experiment=name,
        config_hash="",
        candidates=tuple(judged),
        comparisons=dict.fromkeys(judged, ""),
        policy=policy,
    )
    parts = {who: part for who, (part, _) in judged.items()}
    return document(settings, parts, {who: counted for who, (_, counted) in judged.items()}, {})


def _judged(
    who: str, pairs: Pairs, tap: Tap | None, policy: Policy
) -> tuple[dict[str, Any], Counted]:
    """One candidate's part of the report, and its counts."""
    counted, share, judged = _counted(pairs, tap, policy)
    names = list(dict.fromkeys((*policy.metrics, *REPORTED)))
    absent = [n for n in names if not measured(policy.metric_of(n)[0], pairs.columns)]
    present = [name for name in names if name not in absent]
    controlled = _controlled(pairs, policy, present)
    against_primary = samples_of(pairs, judged, policy, present, (CANDIDATE, PRIMARY))
    against_control = samples_of(pairs, judged, policy, controlled, (CANDIDATE, CONTROL))
    reference = "control" if controlled else "primary"
    sides = CANDIDATE, CONTROL if controlled else PRIMARY
    span_s = float(pairs.at_s[-1] - pairs.at_s[0])
    evidence = Evidence(
        candidate=who,
        reference=reference,
        samples={name: against_primary[name] for name in against_primary if name not in controlled}
        | against_control,
        against_primary=against_primary,
        test_bed=samples_of(pairs, judged, policy, controlled, (CONTROL, PRIMARY)),
        coverage=share,
        control_coverage=_share(counted.controlled, counted.complete) if controlled else None,
        control_gaps={NO_CONTROL: counted.complete - (counted.controlled or 0)},
        lacking=lacking(policy, counted.complete, _missing(pairs, judged, policy, present, sides)),
        span_s=float((counted.until_s or 0) - (counted.from_s or 0)),
        references={name: "primary" for name in present if name not in controlled},
        absent=[name for name in absent if name in policy.metrics],
        loads=_loads(pairs, who, span_s, controlled=bool(controlled)),
        tap=(tap.expected, tap.received) if tap else None,
        tapped=len(pairs.at_s),
        notes=_notes(pairs),
        counted=counted,
    )
    judgement = judge(policy, evidence, tuple(name for name in REPORTED if name in present))
    parts = explored(parts_of(pairs, judged, policy, present, sides), policy, judgement)
    return candidate_part(evidence, judgement, counted, parts), counted


def _controlled(pairs: Pairs, policy: Policy, names: list[str]) -> list[str]:
    """Which METRIC.STATISTIC the control has a part in: it has values, or failed."""
    ok = pairs.columns.get("ok")
    failed = ok is not None and bool((ok[:, CONTROL] == 0).any())
    return [name for name in names if failed or _has_control(pairs, policy, name)]


def _has_control(pairs: Pairs, policy: Policy, name: str) -> bool:
    metric, _ = policy.metric_of(name)
    key = column_of(metric, pairs.columns)
    if metric.name == "tokens_per_s" and tokens_per_s_by(pairs.columns) == BY_SUMS:
        key = "decode_ms"
    return key is not None and not bool(np.isnan(pairs.columns[key][:, CONTROL]).all())


def _counted(pairs: Pairs, tap: Tap | None, policy: Policy) -> tuple[Counted, float | None, Mask]:
    """Pairs by what became of them; coverage, unknown without the tap's line; who is judged."""
    ok, count = pairs.columns.get("ok"), len(pairs.at_s)
    outcome = np.ones(count, bool) if ok is None else ~np.isnan(ok[:, :CONTROL]).any(axis=1)
    warm = np.arange(count) < policy.warm_up.pairs
    judged = outcome & ~warm
    reasons = {
        "warm_up": int(warm.sum()),
        "unknown_outcome": int((~outcome & ~warm).sum()),
        "repeated": pairs.repeated,
    }
    should = tap.expected * policy.tap.expected if tap else 0.0
    gaps = {
        "no_line": max(round(should) - count, 0),
        "unknown_outcome": reasons["unknown_outcome"],
    }
    counted = Counted(
        sampled=max(count, round(should)),
        complete=int(judged.sum()),
        excluded={reason: number for reason, number in reasons.items() if number},
        from_s=int(pairs.at_s[judged][0]) if judged.any() else None,
        until_s=int(np.ceil(pairs.at_s[judged][-1])) if judged.any() else None,
        controlled=_with_control(pairs, judged),
        gaps={reason: number for reason, number in gaps.items() if number} if tap else {},
    )
    if tap is None:
        return counted, None, judged
    due = max(should, count) - reasons["warm_up"]
    return counted, counted.complete / due if due > 0 else None, judged


def _share(part: int | None, whole: int) -> float | None:
    return part / whole if part is not None and whole else None


def _missing(
    pairs: Pairs, judged: Mask, policy: Policy, names: list[str], sides: tuple[int, int]
) -> dict[str, int]:
    """Judged pairs in which the candidate alone lacks a metric, though both sides answered."""
    here, there = sides
    ok = pairs.columns.get("ok")
    both = judged if ok is None else judged & (ok[:, here] != 0) & (ok[:, there] != 0)
    found: dict[str, int] = {}
    for name in names:
        metric, _ = policy.metric_of(name)
        key = column_of(metric, pairs.columns)
        if key is None or key == "ok":
            continue
        values = np.isnan(pairs.columns[key])
        lacks = int((both & values[:, here] & ~values[:, there]).sum())
        if lacks:
            found[missing(metric.name)] = lacks
    return found


def _with_control(pairs: Pairs, judged: Mask) -> int | None:
    """Judged pairs of which anything of a control is known; None where nothing is of any."""
    known = np.zeros(len(judged), bool)
    for column in pairs.columns.values():
        known |= ~np.isnan(column[:, CONTROL])
    return int((known & judged).sum()) if known.any() else None


def _loads(pairs: Pairs, who: str, span_s: float, *, controlled: bool) -> dict[str, float]:
    """Requests a second that the pairs make; what else the primary served is not in the file."""
    if span_s <= 0:
        return {}
    rate = len(pairs.at_s) / span_s
    return {who: rate} | ({"control": rate} if controlled else {})


def _notes(pairs: Pairs) -> tuple[str, ...]:
    how = tokens_per_s_by(pairs.columns)
    return (HOW_TOKENS[how],) if how else ()
