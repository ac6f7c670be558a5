"""One plain sentence a metric: what was seen, how sure it is, which limit it met."""

from __future__ import annotations

import math
from dataclasses import dataclass

from analysis.bounds import Bounds, side
from analysis.compare.sample import Sample
from analysis.metrics import Metric
from analysis.scale import change, delta, ends, interval, unit

_EQUAL = {"time": "as fast as", "ratio": "as much as", "share": "as many as"}
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
    improve: float | None = None


def sentence(facts: Facts, metric: Metric, sample: Sample | None, limits: Bounds | None) -> str:
    """The sentence for a state; numbers as a person reads them, open ends as `?`."""
    if sample is None or limits is None or not math.isfinite(sample.estimate):
        return f"{facts.name}: {facts.reason}."
    of = unit(metric)
    seen = f"{facts.name}: {_difference(facts, metric, sample)}"
    low, high = interval(metric, limits)
    if facts.margin is None:
        return f"{seen} ({ends(low, high, of)}), not gated."
    limit = change(facts.margin * side(metric), of)
    goal = change(-(facts.improve or 0) * side(metric), of)
    if facts.state == "fail":
        least = change(low if side(metric) > 0 else high, of)
        risk = f"a false alarm in at most {limits.alpha_reject:.2%} of such runs"
        return f"{seen} (at least {least}, {risk}), beyond the limit of {limit}."
    if facts.improve is not None:
        met = "the goal is met" if facts.state == "pass" else facts.reason
        return f"{seen} ({ends(low, high, of)}); {met}; the goal is {goal}{_more(facts)}."
    if facts.state == "pass":
        return f"{seen} (always-valid: {ends(low, high, of)}), within the limit of {limit}."
    return f"{seen} ({ends(low, high, of)}); {facts.reason}; the limit is {limit}{_more(facts)}."


def _difference(facts: Facts, metric: Metric, sample: Sample) -> str:
    shown = change(delta(metric, sample.estimate), unit(metric))
    kind = "ratio" if metric.kind == "time" and metric.unit != "ms" else metric.kind
    word = _WORDS[kind][1 if shown.startswith("-") else 0]
    verb = "is" if kind == "time" else "has"
    if float(shown.split()[0]) == 0:
        return f"{facts.candidate} {verb} {_EQUAL[kind]} {facts.reference}"
    return f"{facts.candidate} {verb} {shown[1:]} {word} than {facts.reference}"


def _more(facts: Facts) -> str:
    if facts.extra_pairs is None or facts.extra_minutes is None:
        return ""
    return f"; about {facts.extra_pairs:,.0f} more pairs (≈{_minutes(facts.extra_minutes)}) decide"


def _minutes(minutes: float) -> str:
    if minutes < 2:
        return f"{minutes * 60:.0f} s"
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"
