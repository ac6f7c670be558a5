"""The judge: from samples to a state a metric, a state a family, and one verdict. Pure.

Reject when a lower bound exceeds its margin, pass when an upper bound is within it, else open.
No data is never a pass. One margin serves both ends.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from analysis.bounds import Bounds, Edges, bounds, edges, noise_floor, remaining
from analysis.compare.sample import Sample
from analysis.metrics import FAMILIES, Family, Metric
from analysis.policy import Gated, Policy
from analysis.preconditions import preconditions, warnings
from analysis.scale import change, delta, unit
from analysis.sentence import Facts, sentence
from analysis.statistics.attempts import attempt_share
from analysis.waivers import Waiver

State = Literal["pass", "fail", "open", "not_gated"]
Verdict = Literal["promote", "hold", "reject"]

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
        references: where another reference than `reference` judges a METRIC.STATISTIC.
        absent: METRIC.STATISTIC that nothing measured: they are not gated, and named.
        waived: METRIC.STATISTIC that a person waived for now.
        loads: requests a second by arm, as far as it is known.
        by_replica: whether `loads` are those of one engine replica, so that all are comparable.
        tap: how many requests there were, and how many of them came by; None: unknown.
        notes: further things that a reader should know.
        incomparable: METRIC.STATISTIC -> why its missing data are no gap of measuring.
        changed: what started this comparison anew; None for the first of a build.
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
    references: Mapping[str, str] = field(default_factory=dict)
    absent: Collection[str] = ()
    waived: Mapping[str, Waiver] = field(default_factory=dict)
    loads: Mapping[str, float] = field(default_factory=dict)
    by_replica: bool = False
    tap: tuple[int, int] | None = None
    notes: tuple[str, ...] = ()
    incomparable: Mapping[str, str] = field(default_factory=dict)
    changed: str | None = None

    def reference_of(self, name: str) -> str:
        """What a METRIC.STATISTIC is judged against."""
        return self.references.get(name, self.reference)


@dataclass(frozen=True, slots=True)
class Reading:
    """What is said of one METRIC.STATISTIC. Fractions; an open end is infinite."""

    name: str
    metric: Metric
    reference: str
    state: State
    reason: str
    sentence: str
    margin: float | None
    goal: str
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
    waived: Mapping[str, Waiver]


def gated(policy: Policy, evidence: Evidence) -> dict[str, Gated]:
    """What this verdict is the conjunction of, and what shares its alpha."""
    left_out = {*evidence.absent, *evidence.waived}
    return {name: one for name, one in policy.metrics.items() if name not in left_out}


def judge(policy: Policy, evidence: Evidence, reported: tuple[str, ...] = ()) -> Judgement:
    """The verdict.

    Args:
        policy: margins, error levels, blocks.
        evidence: samples and what is known about them.
        reported: further METRIC.STATISTIC that are read and not gated.
    """
    names = (*policy.metrics, *(name for name in reported if name not in policy.metrics))
    judged = gated(policy, evidence)
    readings = {name: _read(policy, evidence, name, judged) for name in names}
    broken = preconditions(policy, evidence)
    verdict, reason = next(_conclusions(policy, evidence, [readings[n] for n in judged], broken))
    return Judgement(
        verdict=verdict,
        reason=reason,
        readings=readings,
        families={family: _family(family, readings) for family in FAMILIES},
        preconditions=broken,
        warnings=warnings(policy, evidence),
        waived={name: why for name, why in evidence.waived.items() if name in policy.metrics},
    )


def _read(policy: Policy, evidence: Evidence, name: str, judged: Mapping[str, Gated]) -> Reading:
    metric, _ = policy.metric_of(name)
    rule, sample = judged.get(name), evidence.samples.get(name)
    share, planned = attempt_share(evidence.attempt), policy.blocks.planned
    at = edges(metric, rule.margin_fraction, rule.improve_fraction) if rule else None
    limits = None
    if sample is not None:
        reject = policy.alpha.reject * share / max(len(judged), 1)
        limits = bounds(sample, metric, at, reject, policy.alpha.promote * share, planned)
    state, reason = next(_states(_Seen(policy, evidence, name, metric, sample, limits, at)))
    pairs, minutes = None, None
    if state == "open" and sample is not None and limits is not None and at is not None:
        pairs = remaining(sample, metric, limits, at, planned)
        minutes = pairs * sample.span_s / sample.pairs / 60 if pairs is not None else None
    margin = rule.margin_fraction if rule else None
    goal = rule.goal if rule else "not_worse"
    reference = evidence.reference_of(name)
    facts = Facts(
        name, evidence.candidate, reference, state, reason, margin, pairs, minutes,
        rule.improve_fraction if rule else None,
    )  # fmt: skip
    return Reading(
        name=name,
        metric=metric,
        reference=reference,
        state=state,
        reason=reason,
        sentence=sentence(facts, metric, sample, limits),
        margin=margin,
        goal=goal,
        critical=rule.critical if rule else False,
        sample=sample,
        bounds=limits,
        extra_pairs=pairs,
        extra_minutes=minutes,
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a state is concluded from."""

    policy: Policy
    evidence: Evidence
    name: str
    metric: Metric
    sample: Sample | None
    limits: Bounds | None
    at: Edges | None


def _states(seen: _Seen) -> Iterator[tuple[State, str]]:
    """Every state that applies with its reason; the first is said."""
    sample, limits = seen.sample, seen.limits
    if seen.at is None:
        yield "not_gated", _why_not_gated(seen.evidence, seen.name)
    if sample is None or limits is None or seen.at is None:
        yield "open", seen.evidence.incomparable.get(seen.name, "no data")
        return
    if not math.isfinite(sample.estimate):
        many = "too many failed answers for this figure"
        yield "open", many if seen.metric.kind == "time" else "no data"
    if limits.fails:
        yield "fail", "the lower bound is beyond the margin"
    if limits.passes:
        yield "pass", "the upper bound is within the margin"
    if math.isinf(limits.harm_high):
        yield "open", f"too few blocks: {len(sample.influences)} so far"
    if limits.harm_low > seen.at.succeed:
        yield "open", "the goal is out of reach: the improvement is surely smaller"
    floor = _floor(seen)
    if floor is not None:
        yield "open", f"margin below the noise floor: ±{floor} at the planned blocks"
    yield "open", "the margin is still inside the interval"


def _why_not_gated(evidence: Evidence, name: str) -> str:
    if name in evidence.waived:
        return f"waived {evidence.waived[name].words}"
    return "nothing measured it" if name in evidence.absent else "no margin in the policy"


def _floor(seen: _Seen) -> str | None:
    """The noise that the planned blocks leave, where no margin could be met within it."""
    policy, name = seen.policy, seen.name
    sample = seen.evidence.test_bed.get(name) or seen.sample
    if sample is None or seen.limits is None or seen.at is None:
        return None
    floor = noise_floor(sample, seen.limits.alpha_promote, policy.blocks.planned)
    if not seen.at.fail < floor < math.inf:
        return None
    return change(delta(seen.metric, floor), unit(seen.metric)).lstrip("+")


def _family(family: Family, readings: Mapping[str, Reading]) -> FamilyState:
    """A fail before an open before a pass; a family without a gated metric is not gated."""
    members = [r for r in readings.values() if r.metric.family == family and r.state != "not_gated"]
    for state in ("fail", "open", "pass"):
        chosen = [r.name for r in members if r.state == state]
        if chosen:
            return FamilyState(state, f"{state}: {', '.join(chosen)}")
    return FamilyState("not_gated", "no metric of this family is gated")


def _conclusions(
    policy: Policy,
    evidence: Evidence,
    judged: list[Reading],
    broken: tuple[str, ...],
) -> Iterator[tuple[Verdict, str]]:
    """Every conclusion that applies with its reason, the strongest first; the first is the verdict.

    A fail of failures rejects whatever the preconditions say: a dead candidate is not held.
    """
    fails = [reading for reading in judged if reading.state == "fail"]
    if evidence.rejected is not None:
        yield "reject", evidence.rejected
    critical = [r for r in fails if r.critical and (not broken or r.name == FAILURES)]
    if critical:
        yield "reject", " ".join(reading.sentence for reading in critical)
    anew = f"{evidence.changed}; " if evidence.changed else ""
    if not any(reading.sample for reading in judged):
        yield "hold", f"{anew}no data yet" if judged else "no metric is gated"
    if broken:
        yield "hold", "; ".join(broken)
    if fails:
        yield "hold", "failed, not critical: " + ", ".join(r.name for r in fails)
    undecided = [f"{r.name} ({r.reason})" for r in judged if r.state == "open"]
    if undecided:
        yield "hold", f"{anew}undecided: " + ", ".join(undecided)
    if evidence.span_s < policy.min_span:
        yield "hold", f"every metric passes; min_span asks for {policy.min_span:g} s of arrivals"
    yield "promote", "every gated metric is within its margin"
