"""One candidate's part of report.json."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from analysis.case import Counted, Evidence
from analysis.compare.sample import Sample
from analysis.judge import Judgement
from analysis.reading import Reading
from analysis.report.plain import finite, moment
from analysis.scale import delta, interval, unit


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
        "coverage": finite(evidence.coverage),
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
        "load": {name: finite(rate) for name, rate in evidence.loads.items()},
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
        "primary": finite(primary.reference_value if primary else None),
        "candidate": finite(sample.value if sample else None),
        "control": finite(sample.reference_value if sample and controlled else None),
        "reference": reading.reference,
        "delta": finite(delta(metric, sample.estimate)) if sample and known else None,
        "vs_primary": finite(delta(metric, primary.estimate)) if primary else None,
        "interval": [finite(end) for end in ends],
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
        "effective_blocks": finite(sample.spread.effective) if sample else 0,
        "projected": _projected(reading),
        "sentence": reading.sentence,
    }


def _range(sample: Sample | None) -> list[float | None] | None:
    if sample is None or sample.value_range is None:
        return None
    return [finite(end) for end in sample.value_range]


def _rejected_since(evidence: Evidence, judgement: Judgement) -> str | None:
    """When a reject that stays was written first."""
    if judgement.verdict != "reject" or evidence.rejected_ns is None:
        return None
    return moment(evidence.rejected_ns // 10**9)


def _projected(reading: Reading) -> dict[str, float] | None:
    """How much more would decide, if all went on as it is."""
    if reading.extra_pairs is None or reading.extra_minutes is None:
        return None
    return {"pairs": math.ceil(reading.extra_pairs), "minutes": round(reading.extra_minutes, 2)}
