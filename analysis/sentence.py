"""One plain sentence a metric: what was seen, how sure it is, which limit it met."""

from __future__ import annotations

import math
from dataclasses import dataclass

from analysis import moments
from analysis.bounds import Bounds
from analysis.compare.sample import Sample
from analysis.harm import side
from analysis.metrics import Metric
from analysis.scale import change, delta, ends, interval, unit
from analysis.statistics.outages import Outage

AT_CAP = math.log(9)
"""A mean log-ratio this far out is made of pairs at the cap: there it says how far at least."""
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
    seen = f"{facts.name}: {_difference(facts, metric, sample)}"
    if facts.margin is None:
        return f"{seen}{_within(metric, limits)}, not gated."
    if facts.state == "fail":
        return f"{seen}{_failed(facts, metric, sample, limits)}."
    return f"{seen}{_undecided_or_passed(facts, metric, sample, limits)}."


def _failed(facts: Facts, metric: Metric, sample: Sample, limits: Bounds) -> str:
    risk = f"a false alarm in at most {limits.alpha_reject:.2%} of such runs"
    if limits.outage is not None:
        return f", and {_outage(facts, limits.outage)} ({risk})"
    low, high = interval(metric, limits)
    least = change(low if side(metric) > 0 else high, unit(metric))
    beyond = f"beyond the limit of {_limit(facts, metric)}"
    return f"{_capped(sample)} (at least {least}, {risk}), {beyond}"


def _undecided_or_passed(facts: Facts, metric: Metric, sample: Sample, limits: Bounds) -> str:
    seen = f"{_capped(sample)}{_within(metric, limits)}"
    if facts.improve is not None:
        met = "the goal is met" if facts.state == "pass" else facts.reason
        goal = change(-facts.improve * side(metric), unit(metric))
        return f"{seen}; {met}; the goal is {goal}{_more(facts)}"
    if facts.state == "pass":
        return f"{seen}, within the limit of {_limit(facts, metric)}"
    return f"{seen}; {facts.reason}; the limit is {_limit(facts, metric)}{_more(facts)}"


def _limit(facts: Facts, metric: Metric) -> str:
    return change((facts.margin or 0) * side(metric), unit(metric))


def _within(metric: Metric, limits: Bounds) -> str:
    """The interval, as far as it has ends."""
    told = ends(*interval(metric, limits), unit(metric))
    return f" (always-valid: {told})" if told else ""


def _capped(sample: Sample) -> str:
    """What a mean of times owes to answers that failed."""
    if not sample.failed:
        return ""
    return f", {sample.failed:.2%} of the pairs failed on one side and count as tenfold"


def _outage(facts: Facts, outage: Outage) -> str:
    """Since when it is down."""
    since = moments.shown(outage.begin_s * 10**9)
    lasted = f"{outage.blocks} blocks in a row ({_minutes(outage.seconds / 60)} at least)"
    return f"{facts.candidate} was down from {since} on, for {lasted}, as no outage that ends is"


def _difference(facts: Facts, metric: Metric, sample: Sample) -> str:
    shown = change(delta(metric, sample.estimate), unit(metric))
    kind = "ratio" if metric.kind == "time" and metric.unit != "ms" else metric.kind
    word = _WORDS[kind][1 if shown.startswith("-") else 0]
    verb = "is" if kind == "time" else "has"
    if facts.name.endswith(".mean") and abs(sample.estimate) >= AT_CAP:
        return f"{facts.candidate} is about ten times {word} than {facts.reference}, or more"
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
