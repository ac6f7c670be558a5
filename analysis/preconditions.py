"""What holds a verdict whatever the figures say, and what a reader should know beside it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from analysis.bounds import Bounds, bounds
from analysis.compare.sample import Sample
from analysis.harm import edges, harm_margin
from analysis.metrics import Metric
from analysis.policy import Policy
from analysis.scale import change, delta, ends, interval, unit
from analysis.statistics.attempts import attempt_share
from analysis.statistics.ratio_mismatch import MISMATCH, log_mismatch

if TYPE_CHECKING:
    from analysis.case import Evidence

DAY_S = 86400.0
FAILURES = "failure.rate"
SAME_LOAD = 0.1
"""Two arms' loads are the same load if they differ by no more than this."""
MOST_GAPS = 3
"""So many reasons of a low coverage are named, the largest."""
THE_CONTROLS = "the control's coverage"
NO_COVERAGE = (
    "coverage is unknown: nothing says how many pairs there should be, so the policy's `coverage` "
    "could not be applied; the verdict is about the pairs that are there, and not about others"
)
NO_NOISE_FLOOR = (
    "there is no control arm: the noise floor is unknown, and a text that differs counts "
    "as a mismatch even where the primary would differ from itself"
)
NO_SAME_PATH = (
    "there is no control arm: the candidate's path, load and caches are not the primary's, and "
    "what they cost or save is counted as the candidate's"
)
NO_SAME_CACHE = (
    "there is no control arm: the time to the first token of a request with earlier turns is not "
    "comparable, for they hold the primary's tokens and its cache is warm"
)


def preconditions(policy: Policy, evidence: Evidence) -> tuple[str, ...]:
    """What holds a promotion, and a reject for latency or quality; one line each."""
    broken = [
        *_covered(policy, "coverage", evidence.coverage, evidence.counted.gaps),
        *_covered(policy, THE_CONTROLS, evidence.control_coverage, evidence.control_gaps),
    ]
    broken += _tap(policy, evidence.tap, evidence.tapped)
    broken += _biased(policy, evidence)
    broken += _loads(evidence)
    return tuple(broken)


def _covered(
    policy: Policy, whose: str, share: float | None, gaps: Mapping[str, int]
) -> Iterator[str]:
    """Low coverage is never a pass, of either side: what is missing may be what is bad."""
    if share is not None and share < policy.coverage:
        yield f"{whose} is {share:.1%}, below {policy.coverage:.0%}{_gaps(gaps)}"


def _gaps(gaps: Mapping[str, int]) -> str:
    """Why outcomes are unknown: the largest reasons."""
    most = sorted(gaps.items(), key=lambda gap: -gap[1])[:MOST_GAPS]
    told = ", ".join(f"{reason} {n:,}" for reason, n in most)
    return f": {told}{', …' if len(gaps) > MOST_GAPS else ''}" if told else ""


def _tap(policy: Policy, tap: tuple[int, int] | None, pairs: int) -> list[str]:
    """As many requests must come by as should; missing answers are failures, not this."""
    if tap is None:
        return []
    expected, received = tap
    if pairs > received:
        said = f"the tap line says that {received:,} requests came by"
        return [f"tap integrity: {said}, and there are {pairs:,} pairs"]
    share = policy.tap.expected
    odds = log_mismatch(expected, received, share)
    if odds < math.log(MISMATCH):
        return []
    off = received / (expected * share) - 1 if expected else math.inf
    seen = f"{abs(off):.1%} {'fewer' if off < 0 else 'more'} requests came by than expected"
    return [f"tap integrity: {seen} (odds {_odds(odds)}:1 against chance)"]


def _odds(log_odds: float) -> str:
    return f"{math.exp(log_odds):,.0f}" if log_odds < math.log(1e6) else "over 1,000,000"


def _biased(policy: Policy, evidence: Evidence) -> list[str]:
    """The control against the primary must not lie outside half a margin: both run the same.

    Outputs are left out: how often the control's text differs is the noise floor itself.
    """
    found = []
    for name, gated in policy.metrics.items():
        metric, _ = policy.metric_of(name)
        sample = None if name in evidence.waived else evidence.test_bed.get(name)
        if sample is None or metric.family == "quality" or not math.isfinite(sample.estimate):
            continue
        level = policy.alpha.promote * attempt_share(evidence.attempt)
        half = gated.margin_fraction / 2
        half_life_s = policy.outage if name == FAILURES else None  # a control may be down, too
        planned = policy.blocks.planned
        limits = bounds(sample, metric, edges(metric, half), level, level, planned, half_life_s)
        if limits.fails or limits.harm_high < -harm_margin(metric, half):
            found.append(f"the test bed is biased: {_differ(name, metric, sample, limits)}")
    return found


def _differ(name: str, metric: Metric, sample: Sample, limits: Bounds) -> str:
    """How far apart control and primary are."""
    if limits.outage is not None:
        return f"the control was down for {limits.outage.blocks} blocks in a row ({name})"
    seen = change(delta(metric, sample.estimate), unit(metric))
    told = ends(*interval(metric, limits), unit(metric))
    far = f"{seen}{f' ({told})' if told else ''}, beyond half of its margin"
    return f"control and primary differ in {name}: {far}"


def _loads(evidence: Evidence) -> list[str]:
    """Both sides must carry the same load, where it is known; a control's always is."""
    here, there = (evidence.loads.get(name) for name in (evidence.candidate, evidence.reference))
    known = evidence.by_replica or evidence.reference != "primary"
    if not known or not here or not there:
        return []
    if abs(math.log(here / there)) <= math.log1p(SAME_LOAD):
        return []
    both = f"{evidence.candidate} saw {here:.3g} requests/s, {evidence.reference} {there:.3g}"
    return [f"load mismatch: {both}{_way_out(evidence)}"]


def _way_out(evidence: Evidence) -> str:
    """What to do about loads that differ."""
    if evidence.by_replica:
        return ", by replica: choose `sample` by the number of replicas; `shadow plan` reckons it"
    names = f"{evidence.candidate} and {evidence.reference}"
    return f": give {names} one `sample`, or state `replicas` of both where their numbers differ"


def warnings(policy: Policy, evidence: Evidence) -> tuple[str, ...]:
    """What a reader should know and no verdict depends on."""
    said = []
    if evidence.coverage is None:
        said.append(NO_COVERAGE)
    if evidence.span_s < DAY_S:
        said.append("the arrivals span less than a day: no daily cycle was seen")
    if evidence.absent:
        said.append(f"not gated, since nothing measured them: {', '.join(sorted(evidence.absent))}")
    if evidence.reference == "primary":
        said += _without_control(policy)
    said.append(capacity(evidence.loads))
    return (*said, *evidence.notes)


def _without_control(policy: Policy) -> list[str]:
    """What it costs that nothing shows the noise floor."""
    said = [NO_NOISE_FLOOR, NO_SAME_PATH]
    if any(name.startswith("ttft") for name in policy.metrics):
        said.append(NO_SAME_CACHE)
    return said


def capacity(loads: Mapping[str, float]) -> str:
    """What equal latency does not say, with the load that each arm saw."""
    seen = ", ".join(f"{name} {rate:.3g} requests/s" for name, rate in loads.items())
    told = f"the load seen: {seen}" if seen else "the load that each side saw is unknown"
    return f"equal latency at the mirrored load says nothing of capacity at another load ({told})"
