"""report.json: one plain tree, from judgements and accounts. NaN and Infinity never stand in it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from analysis.accounting import BEGAN, Account
from analysis.case import Counted, Evidence
from analysis.compare.sample import Sample
from analysis.judge import Judgement
from analysis.policy import Policy
from analysis.reading import Reading
from analysis.report.definitions import definitions
from analysis.report.factors import factors
from analysis.scale import delta, interval, unit
from analysis.settings import Settings

SCHEMA = 1


def candidate_part(
    evidence: Evidence,
    judgement: Judgement,
    counted: Counted,
    segments: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One candidate's part of the tree, and what its segments say where they were looked at."""
    told = {} if segments is None else {"segments": dict(segments)}
    return {
        "verdict": judgement.verdict,
        "reason": judgement.reason,
        "coverage": _finite(evidence.coverage),
        "pairs": {
            "sampled": counted.sampled,
            "complete": counted.complete,
            "excluded": sum(counted.excluded.values()),
            "pending": counted.pending,
            "waiting": counted.waiting,
            "late": counted.late,
            "copies": counted.copies,
            "controlled": counted.controlled,
        },
        "probes": {"complete": counted.probes, "excluded": dict(counted.probes_excluded)},
        "reference": evidence.reference,
        "attempt": evidence.attempt,
        "rejected_since": _rejected_since(evidence, judgement),
        "preconditions": list(judgement.preconditions),
        "warnings": list(judgement.warnings),
        "waivers": {name: waiver.part() for name, waiver in judgement.waived.items()},
        "load": {name: _finite(rate) for name, rate in evidence.loads.items()},
        "families": {
            name: {"state": family.state, "reason": family.reason}
            for name, family in judgement.families.items()
        },
        "metrics": {
            name: _metric(reading, evidence) for name, reading in judgement.readings.items()
        },
        "excluded": dict(counted.excluded),
        "gaps": dict(counted.gaps),
        "undefined": dict(counted.undefined),
        **told,
    }


def _metric(reading: Reading, evidence: Evidence) -> dict[str, Any]:
    metric = reading.metric
    sample, limits = reading.sample, reading.bounds
    primary = evidence.against_primary.get(reading.name)
    controlled = reading.reference != "primary"
    known = sample is not None and math.isfinite(sample.estimate)
    ends = interval(metric, limits) if known and limits is not None else (None, None)
    return {
        "primary": _finite(primary.reference_value if primary else None),
        "candidate": _finite(sample.value if sample else None),
        "control": _finite(sample.reference_value if sample and controlled else None),
        "reference": reading.reference,
        "delta": _finite(delta(metric, sample.estimate)) if sample and known else None,
        "vs_primary": _finite(delta(metric, primary.estimate)) if primary else None,
        "interval": [_finite(end) for end in ends],
        "candidate_range": _range(sample),
        "margin": reading.margin,
        "goal": reading.goal,
        "unit": unit(metric),
        "value_unit": metric.unit,
        "better": metric.better,
        "family": metric.family,
        "critical": reading.critical,
        "state": reading.state,
        "reason": reading.reason,
        "pairs": int(sample.pairs) if sample else 0,
        "blocks": len(sample.influences) if sample else 0,
        "effective_blocks": _finite(sample.spread.effective) if sample else 0,
        "projected": _projected(reading),
        "sentence": reading.sentence,
    }


def _range(sample: Sample | None) -> list[float | None] | None:
    if sample is None or sample.value_range is None:
        return None
    return [_finite(end) for end in sample.value_range]


def _rejected_since(evidence: Evidence, judgement: Judgement) -> str | None:
    """When a reject that stays was written first."""
    if judgement.verdict != "reject" or evidence.rejected_ns is None:
        return None
    return _time(evidence.rejected_ns // 10**9)


def _projected(reading: Reading) -> dict[str, float] | None:
    """How much more would decide, if all went on as it is."""
    if reading.extra_pairs is None or reading.extra_minutes is None:
        return None
    return {"pairs": math.ceil(reading.extra_pairs), "minutes": round(reading.extra_minutes, 2)}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def document(
    settings: Settings,
    parts: Mapping[str, dict[str, Any]],
    counted: Mapping[str, Counted],
    accounts: Mapping[str, Account],
    answered: Mapping[str, Any] | None = None,
    cost: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The whole report.

    Args:
        settings: the experiment.
        parts: `candidate_part` by candidate.
        counted: pairs by candidate.
        accounts: every arm's accounting.
        answered: `answered.answered`; None where it was not looked at.
        cost: what the measuring itself costs, by what it costs it; None where it was not looked at.
    """
    identities = {name: settings.comparisons[name] for name in settings.candidates}
    alone = next(iter(parts), None) if len(settings.candidates) == 1 else None
    tree: dict[str, Any] = {
        "schema": SCHEMA,
        "experiment": settings.experiment,
        "comparison": identities[alone] if alone else identities,
        "config_hash": settings.config_hash,
        "policy_hash": settings.policy_hash,
        "policy": judged_by(settings.policy),
        "attach": settings.attach,
        "builds": {name: build for name, build in settings.builds.items() if build},
        "window": _window(settings, counted),
        "candidates": dict(parts),
        "accounting": {"arms": {name: _account(account) for name, account in accounts.items()}},
        **({} if answered is None else {"answered": dict(answered)}),
        "factors": factors(settings.factors, parts),
        "cost": {**(cost or {}), "note": "not yet: what an answer costs is not in this version"},
        "definitions": definitions(parts),
    }
    return {"verdict": parts[alone]["verdict"], **tree} if alone else tree


def judged_by(policy: Policy) -> dict[str, Any]:
    """What of the policy a reader must know to read a verdict; its hash has the rest."""
    return {
        "default": policy == Policy(),
        "gated": {
            name: {"margin": one.margin, "goal": one.goal, "critical": one.critical}
            for name, one in policy.metrics.items()
        },
        "min_span_s": policy.min_span,
        "warm_up_pairs": policy.warm_up.pairs,
    }


def _window(settings: Settings, counted: Mapping[str, Counted]) -> dict[str, Any]:
    starts = [c.from_s for c in counted.values() if c.from_s is not None]
    ends = [c.until_s for c in counted.values() if c.until_s is not None]
    return {
        "from": _time(min(starts, default=None)),
        "until": _time(max(ends, default=None)),
        "span_s": max(ends) - min(starts) if starts and ends else None,
        "seconds": settings.window_seconds,
    }


def _time(seconds: int | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()


def _account(account: Account) -> dict[str, Any]:
    return {
        "eligible": account.eligible,
        "sampled": account.sampled,
        "skipped": dict(account.skipped),
        "captured": account.captured,
        "dropped": dict(account.dropped),
        "pending": account.pending,
        "lost": account.lost,
        **{name: account.began.get(name, 0) for name in BEGAN},
        "unreadable": account.unreadable,
    }
