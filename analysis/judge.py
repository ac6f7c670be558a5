"""The judge: from samples to a state a metric, a state a family, and one verdict. Pure.

Reject when a lower bound exceeds its margin, pass when an upper bound is within it, else open.
No data is never a pass. One margin serves both ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from analysis.bounds import Bounds, bounds, harm_margin, remaining
from analysis.compare.sample import Sample
from analysis.metrics import FAMILIES, Family, Metric, split
from analysis.policy import Policy
from analysis.sentence import Facts, sentence

State = Literal["pass", "fail", "open", "not_gated"]
Verdict = Literal["promote", "hold", "reject"]

DAY_S = 86400.0
FAILURES = "failure.rate"


@dataclass(frozen=True)
class Evidence:
    """All that a verdict on one candidate rests on.

    Attributes:
        candidate: its name.
        reference: what it is judged against: the control's name, or `primary`.
        samples: METRIC.STATISTIC of the candidate against the reference; without data absent.
        against_primary: the same against the primary.
        test_bed: the control against the primary; empty without a control.
        coverage: share of sampled requests whose outcome is known on both sides; None: unknown.
        attempt: the how-manieth comparison of this build; n has alpha·6/(π²n²).
        span_s: seconds between the first and the last judged arrival.
        rejected: the reason of an earlier reject of this comparison; a reject stays.
    """

    candidate: str
    reference: str
    samples: Mapping[str, Sample]
    against_primary: Mapping[str, Sample] = field(default_factory=dict)
    test_bed: Mapping[str, Sample] = field(default_factory=dict)
    coverage: float | None = None
    attempt: int = 1
    span_s: float = 0.0
    rejected: str | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What is said of one METRIC.STATISTIC. Fractions; an open end is infinite."""

    name: str
    state: State
    reason: str
    sentence: str
    margin: float | None
    critical: bool
    sample: Sample | None
    bounds: Bounds | None
    extra_pairs: float | None
    extra_minutes: float | None


@dataclass(frozen=True, slots=True)
class FamilyState:
    """A family's state and what made it so."""

    state: State
    reason: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """One candidate's verdict with everything that it rests on."""

    verdict: Verdict
    reason: str
    readings: Mapping[str, Reading]
    families: Mapping[Family, FamilyState]
    preconditions: tuple[str, ...]
    warnings: tuple[str, ...]


def attempt_share(attempt: int) -> float:
    """The share of alpha that the n-th comparison of one build has: 6/(π²n²); all add up to 1."""
    return 6 / (math.pi**2 * attempt**2)


def judge(policy: Policy, evidence: Evidence, reported: tuple[str, ...] = ()) -> Judgement:
    """The verdict.

    Args:
        policy: margins, error levels, blocks.
        evidence: samples and what is known about them.
        reported: further METRIC.STATISTIC that are read and not gated.
    """
    names = (*policy.metrics, *(name for name in reported if name not in policy.metrics))
    readings = {name: _read(policy, evidence, name) for name in names}
    preconditions = _preconditions(policy, evidence)
    verdict, reason = next(_conclusions(policy, evidence, readings, preconditions))
    return Judgement(
        verdict=verdict,
        reason=reason,
        readings=readings,
        families={family: _family(family, readings) for family in FAMILIES},
        preconditions=preconditions,
        warnings=_warnings(evidence),
    )


def _read(policy: Policy, evidence: Evidence, name: str) -> Reading:
    metric, _ = split(name)
    gated = policy.metrics.get(name)
    sample = evidence.samples.get(name)
    share = attempt_share(evidence.attempt)
    margin = gated.margin_fraction if gated else None
    limits = None
    if sample is not None:
        reject = policy.alpha.reject * share / max(len(policy.metrics), 1)
        promote = policy.alpha.promote * share
        limits = bounds(sample, metric, margin, reject, promote, policy.blocks.planned)
    state, reason = next(_states(metric, sample, limits, margin))
    pairs, minutes = None, None
    if state == "open" and sample is not None and limits is not None and margin is not None:
        pairs = remaining(sample, metric, limits, margin, policy.blocks.planned)
        minutes = pairs * sample.span_s / sample.pairs / 60 if pairs is not None else None
    facts = Facts(
        name, evidence.candidate, evidence.reference, state, reason, margin, pairs, minutes
    )
    return Reading(
        name=name,
        state=state,
        reason=reason,
        sentence=sentence(facts, metric, sample, limits),
        margin=margin,
        critical=gated.critical if gated else False,
        sample=sample,
        bounds=limits,
        extra_pairs=pairs,
        extra_minutes=minutes,
    )


def _states(
    metric: Metric, sample: Sample | None, limits: Bounds | None, margin: float | None
) -> Iterator[tuple[State, str]]:
    """Every state that applies with its reason; the first is said."""
    if margin is None:
        yield "not_gated", "no margin in the policy"
    if sample is None or limits is None:
        yield "open", "no data"
        return
    if not math.isfinite(sample.estimate):
        many = "too many failed answers for this figure"
        yield "open", many if metric.kind == "time" else "no data"
    if limits.fails:
        yield "fail", "the lower bound is beyond the margin"
    if limits.passes:
        yield "pass", "the upper bound is within the margin"
    if math.isinf(limits.harm_high):
        yield "open", f"too few blocks: {len(sample.influences)} so far"
    yield "open", "the margin is still inside the interval"


def _family(family: Family, readings: Mapping[str, Reading]) -> FamilyState:
    """A fail before an open before a pass; a family without a gated metric is not gated."""
    members = [
        r for r in readings.values() if split(r.name)[0].family == family and r.state != "not_gated"
    ]
    for state in ("fail", "open", "pass"):
        chosen = [r.name for r in members if r.state == state]
        if chosen:
            return FamilyState(state, f"{state}: {', '.join(chosen)}")
    return FamilyState("not_gated", "no metric of this family is gated")


def _preconditions(policy: Policy, evidence: Evidence) -> tuple[str, ...]:
    """What holds a promotion, and a reject for latency or quality; one line each."""
    broken = []
    if evidence.coverage is not None and evidence.coverage < policy.coverage:
        broken.append(f"coverage is {evidence.coverage:.1%}, below {policy.coverage:.0%}")
    broken += _biased(policy, evidence)
    return tuple(broken)


def _biased(policy: Policy, evidence: Evidence) -> list[str]:
    """The control against the primary must not lie outside half a margin: both run the same.

    Outputs are left out: how often the control's text differs is the noise floor itself.
    """
    found = []
    for name, gated in policy.metrics.items():
        metric, _ = split(name)
        sample = evidence.test_bed.get(name)
        if sample is None or metric.family == "quality" or not math.isfinite(sample.estimate):
            continue
        level = policy.alpha.promote * attempt_share(evidence.attempt)
        half = gated.margin_fraction / 2
        limits = bounds(sample, metric, half, level, level, policy.blocks.planned)
        edge = harm_margin(metric, half)
        if limits.harm_low > edge or limits.harm_high < -edge:
            found.append(f"the test bed is biased: control and primary differ in {name}")
    return found


def _conclusions(
    policy: Policy,
    evidence: Evidence,
    readings: Mapping[str, Reading],
    preconditions: tuple[str, ...],
) -> Iterator[tuple[Verdict, str]]:
    """Every conclusion that applies with its reason, the strongest first; the first is the verdict.

    A fail of failures rejects whatever the preconditions say: a dead candidate is not held.
    """
    gated = [readings[name] for name in policy.metrics]
    fails = [reading for reading in gated if reading.state == "fail"]
    if evidence.rejected is not None:
        yield "reject", evidence.rejected
    critical = [r for r in fails if r.critical and (not preconditions or r.name == FAILURES)]
    if critical:
        yield "reject", " ".join(reading.sentence for reading in critical)
    if not any(reading.sample for reading in gated):
        yield "hold", "no data yet" if gated else "no metric is gated"
    if preconditions:
        yield "hold", "; ".join(preconditions)
    if fails:
        yield "hold", "failed, not critical: " + ", ".join(r.name for r in fails)
    undecided = [f"{r.name} ({r.reason})" for r in gated if r.state == "open"]
    if undecided:
        yield "hold", "undecided: " + ", ".join(undecided)
    if evidence.span_s < policy.min_span:
        yield "hold", f"every metric passes; min_span asks for {policy.min_span:g} s of arrivals"
    yield "promote", "every gated metric is within its margin"


def _warnings(evidence: Evidence) -> tuple[str, ...]:
    """What a reader should know and no verdict depends on."""
    said = []
    if evidence.span_s < DAY_S:
        said.append("the arrivals span less than a day: no daily cycle was seen")
    if evidence.reference == "primary":
        said.append(
            "there is no control arm: the noise floor is unknown, and a text that differs counts "
            "as a mismatch even where the primary would differ from itself"
        )
    return tuple(said)
