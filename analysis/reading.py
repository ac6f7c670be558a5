"""What is said of one METRIC.STATISTIC: its bounds, its state, why, and one sentence. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from analysis.bounds import Bounds, bounds
from analysis.case import Evidence
from analysis.compare.sample import Sample
from analysis.gated import Gated
from analysis.harm import Edges, edges
from analysis.metrics import Metric
from analysis.outlook import noise_floor, remaining
from analysis.policy import Policy
from analysis.preconditions import FAILURES
from analysis.scale import change, delta, unit
from analysis.sentence import Facts, sentence
from analysis.statistics.attempts import attempt_share
from analysis.statistics.blocks import MIN_BLOCKS, MIN_EFFECTIVE

State = Literal["pass", "fail", "open", "not_gated"]


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


def read(policy: Policy, evidence: Evidence, name: str, judged: Mapping[str, Gated]) -> Reading:
    """One METRIC.STATISTIC, gated where `judged` has it; `judged` shares alpha."""
    metric, _ = policy.metric_of(name)
    rule, sample = judged.get(name), evidence.samples.get(name)
    share, planned = attempt_share(evidence.attempt), policy.blocks.planned
    at = edges(metric, rule.margin_fraction, rule.improve_fraction) if rule else None
    limits = None
    if sample is not None:
        reject = policy.alpha.reject * share / max(len(judged), 1)
        half_life_s = policy.outage if name == FAILURES else None
        promote = policy.alpha.promote * share
        limits = bounds(sample, metric, at, reject, promote, planned, half_life_s)
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
    if seen.name in seen.evidence.lacking:
        yield "open", seen.evidence.lacking[seen.name]
    if limits.fails:
        outage = limits.outage is not None
        yield "fail", "an outage does not end" if outage else "the lower bound is beyond the margin"
    if limits.passes:
        yield "pass", "the upper bound is within the margin"
    if math.isinf(limits.harm_high):
        yield "open", _too_few(sample)
    if limits.harm_low > seen.at.succeed:
        yield "open", "the goal is out of reach: the improvement is surely smaller"
    floor = _floor(seen)
    if floor is not None:
        yield "open", f"margin below the noise floor: ±{floor} at the planned blocks"
    yield "open", "the margin is still inside the interval"


def _too_few(sample: Sample) -> str:
    """How many blocks there are of those that it takes, and the way out."""
    seen = sample.spread
    told = f"too few blocks: {seen.blocks} so far"
    if seen.blocks < MIN_BLOCKS:
        return f"{told}, {MIN_BLOCKS} are the least: more time, or more requests, make more"
    if seen.effective < MIN_EFFECTIVE:
        uneven = sample.kish is not None and 2 * sample.kish < seen.blocks
        why = "of which a few hold most of the pairs" if uneven else "which move together"
        worth = math.floor(10 * seen.effective) / 10  # never rounded up to what it takes
        least = f"{MIN_EFFECTIVE:.0f} are the least: more time, or steadier traffic"
        return f"{told}, {why}, so they say no more than {worth:.1f} independent ones; {least}"
    return told


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
