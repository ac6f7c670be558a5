"""A plan: pairs and minutes to a verdict, before there is one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from analysis.compare.sample import Sample
from analysis.harm import harm_margin
from analysis.metrics import Metric, quantile_of
from analysis.policy import Policy
from analysis.statistics.attempts import attempt_share
from analysis.statistics.blocks import tail_pairs
from analysis.statistics.planning import (
    least_pairs_of_share,
    mean_variance,
    multiplier,
    quantile_variance,
    share_variance,
)

FEWEST_BLOCKS = 20
"""Fewer hardly ever decide: the multiplier is infinite or large."""


@dataclass(frozen=True, slots=True)
class Stated:
    """What is assumed where no A/A sample is at hand.

    Attributes:
        sigma: deviation of the log of one answer's time.
        correlation: of the logs of a pair's two sides.
        rate: share of answers that fail, or differ.
        design: how much more pairs dependence costs.
    """

    sigma: float = 0.5
    correlation: float = 0.5
    rate: float = 0.002
    design: float = 1.0


@dataclass(frozen=True, slots=True)
class Need:
    """Pairs for one METRIC.STATISTIC.

    Attributes:
        to_pass: until a candidate that equals its reference passes; with a goal, until one that
            improves by twice as much.
        to_fail: until one that is worse by twice the margin fails.
        measured: whether by an A/A sample, or by what was stated.
    """

    to_pass: int
    to_fail: int
    measured: bool


def needs(
    policy: Policy, stated: Stated, sample: Mapping[str, Sample], power: float = 0.8
) -> dict[str, Need]:
    """Pairs by gated METRIC.STATISTIC; n = M·V·DE/gap², and never fewer than the blocks ask for.

    Args:
        policy: margins, levels, blocks.
        stated: assumptions.
        sample: the control against the primary, where there is one.
        power: the share of runs that decide by then: 0.8 or 0.9.
    """
    share = attempt_share(1)
    reject = policy.alpha.reject * share / max(len(policy.metrics), 1)
    promote = policy.alpha.promote * share
    found = {}
    for name, gated in policy.metrics.items():
        metric, statistic = policy.metric_of(name)
        seen = sample.get(name)
        variance = _variance(metric, statistic, stated, seen)
        margin = gated.margin_fraction
        near, far = harm_margin(metric, margin), _twice(metric, margin)
        gap = near if gated.improve_fraction is None else _beyond(metric, gated.improve_fraction)
        least = float(_least(policy, statistic))
        passing = multiplier(promote, power) * variance / gap**2
        failing = multiplier(reject, power) * variance / (far - near) ** 2
        if metric.kind == "share":
            least = max(least, least_pairs_of_share(gap, promote))
        found[name] = Need(
            math.ceil(max(passing, least)), math.ceil(max(failing, least)), seen is not None
        )
    return found


def _beyond(metric: Metric, improve: float) -> float:
    """From a goal to what improves by twice as much, or by half of what is left to improve."""
    more = min(2 * improve, (1 + improve) / 2)
    if metric.kind == "share":
        return more - improve
    if metric.better == "higher":
        return math.log1p(more) - math.log1p(improve)
    return math.log1p(-improve) - math.log1p(-more)


def _twice(metric: Metric, margin: float) -> float:
    """The harm of twice the margin; a loss of everything where that is more than all there is."""
    if metric.kind == "share" or metric.better != "higher":
        return harm_margin(metric, 2 * margin)
    return harm_margin(metric, min(2 * margin, 0.99))


def _variance(metric: Metric, statistic: str, stated: Stated, seen: Sample | None) -> float:
    """V·DE: of an A/A sample its squared standard error times its pairs."""
    if seen is not None and math.isfinite(seen.spread.se):
        return seen.spread.se**2 * seen.pairs
    if metric.kind == "share":
        return share_variance(stated.rate) * stated.design
    p = quantile_of(statistic)
    of = mean_variance(stated.sigma, stated.correlation)
    return stated.design * (
        of if p is None else quantile_variance(p, stated.sigma, stated.correlation)
    )


def _least(policy: Policy, statistic: str) -> int:
    p, blocks = quantile_of(statistic), policy.blocks
    size = (blocks.pairs or 1) if blocks.by == "count" else blocks.min_pairs
    return FEWEST_BLOCKS * (size if p is None else max(size, tail_pairs(p)))


def minutes(pairs: int, policy: Policy, rate: float) -> float:
    """Until so many pairs have come, at a rate of pairs a second, and the policy's span is over."""
    wait_s = (pairs + policy.warm_up.pairs) / rate
    if policy.blocks.by == "time":
        wait_s = max(wait_s, FEWEST_BLOCKS * policy.blocks.every)
    return max(wait_s, policy.min_span) / 60
