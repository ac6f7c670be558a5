"""One plain sentence a metric: what was seen, how sure it is, which limit it met."""

from __future__ import annotations

import math
from dataclasses import dataclass

from analysis.bounds import Bounds, side
from analysis.compare.sample import Sample
from analysis.metrics import Metric
from analysis.scale import shown_change, shown_delta, shown_ends, shown_interval

_WORDS = {"time": ("slower", "faster"), "ratio": ("more", "less"), "share": ("more", "fewer")}


@dataclass(frozen=True, slots=True)
class Facts:
    """What the judge knows of one METRIC.STATISTIC when it speaks."""

    name: str
    candidate: str
    reference: str
    state: str
    reason: str
    margin: float | None
    extra_pairs: float | None
    extra_minutes: float | None


def sentence(facts: Facts, metric: Metric, sample: Sample | None, limits: Bounds | None) -> str:
    """The sentence for a state; numbers as a person reads them, open ends as `?`."""
    if sample is None or limits is None or not math.isfinite(sample.estimate):
        return f"{facts.name}: {facts.reason}."
    seen = f"{facts.name}: {_difference(facts, metric, sample)}"
    if facts.margin is None:
        return f"{seen} ({shown_ends(metric, sample, limits)}), not gated."
    limit = shown_change(metric, facts.margin * side(metric))
    low, high = shown_interval(metric, limits)
    if facts.state == "fail":
        least = shown_change(metric, low if side(metric) > 0 else high)
        return (
            f"{seen} (at least {least}, a false alarm in at most "
            f"{limits.alpha_reject:.2%} of such runs), beyond the limit of {limit}."
        )
    ends = shown_ends(metric, sample, limits)
    if facts.state == "pass":
        return f"{seen} (always-valid: {ends}), within the limit of {limit}."
    return f"{seen} ({ends}), {facts.reason}; the limit is {limit}{_more(facts)}."


def _difference(facts: Facts, metric: Metric, sample: Sample) -> str:
    delta = shown_delta(metric, sample.estimate)
    amount = shown_change(metric, abs(delta)).lstrip("+")
    word = _WORDS[metric.kind][0 if delta >= 0 else 1]
    return (
        f"{facts.candidate} is {amount} {word} than {facts.reference}".replace(
            "is 0.0 % slower than", "is as fast as"
        )
        if metric.kind == "time"
        else f"{facts.candidate} has {amount} {word} than {facts.reference}"
    )


def _more(facts: Facts) -> str:
    if facts.extra_pairs is None or facts.extra_minutes is None:
        return ""
    return f"; about {facts.extra_pairs:,.0f} more pairs (≈{_minutes(facts.extra_minutes)}) decide"


def _minutes(minutes: float) -> str:
    if minutes < 2:
        return f"{minutes * 60:.0f} s"
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"
