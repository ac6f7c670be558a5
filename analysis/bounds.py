"""The two bounds that decide, on the scale of harm: positive is worse for the user.

Harm is the estimate itself where lower is better, else its negative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from analysis.compare.sample import Sample
from analysis.metrics import Metric
from analysis.statistics.betting import bound
from analysis.statistics.betting import log_evidence as betting_log_evidence
from analysis.statistics.blocks import MIN_BLOCKS, MIN_EFFECTIVE, Spread, half_width
from analysis.statistics.boundary import t_log_evidence, tuned_rho2
from analysis.statistics.outages import LEVEL_SHARE, Outage, longest_outage

MOST_BLOCKS = 10**7


@dataclass(frozen=True, slots=True)
class Bounds:
    """Harm lies above `harm_low` at the reject level, and below `harm_high` at the promote level.

    Attributes:
        harm_low, harm_high: the bounds; infinite while there are too few blocks.
        fails, passes: whether a bound has crossed the margin.
        alpha_reject, alpha_promote: the one-sided levels.
        outage: an outage that went on for so long that it alone fails; the bounds may say nothing.
    """

    harm_low: float
    harm_high: float
    fails: bool
    passes: bool
    alpha_reject: float
    alpha_promote: float
    outage: Outage | None = None


def side(metric: Metric) -> int:
    """1 where lower is better, -1 where higher is."""
    return -1 if metric.better == "higher" else 1


def harm_margin(metric: Metric, margin: float) -> float:
    """A margin on the scale of harm: 5 % more is ln 1.05, 5 % fewer is -ln 0.95, 2 pp is 0.02."""
    if metric.kind == "share":
        return margin
    return math.log1p(margin) if metric.better != "higher" else -math.log1p(-margin)


@dataclass(frozen=True, slots=True)
class Edges:
    """Where harm must lie: above `fail` it fails, at or below `succeed` it passes."""

    fail: float
    succeed: float


def edges(metric: Metric, margin: float, improve: float | None = None) -> Edges:
    """The edges of a margin; with a goal of improvement it passes only beyond that.

    Args:
        metric: its metric.
        margin: as a fraction: harm beyond it fails.
        improve: as a fraction: 10 % less of a time is -ln 0.9, 10 % more tokens a second ln 1.1.
    """
    worst = harm_margin(metric, margin)
    if improve is None:
        return Edges(worst, worst)
    if metric.kind == "share":
        return Edges(worst, -improve)
    better = -math.log1p(improve) if metric.better == "higher" else math.log1p(-improve)
    return Edges(worst, better)


def bounds(
    sample: Sample,
    metric: Metric,
    at: Edges | None,
    alpha_reject: float,
    alpha_promote: float,
    planned: int,
    half_life_s: float | None = None,
) -> Bounds:
    """Both bounds. For shares the hull of block interval and betting: both must agree.

    Where outages are looked at, they have a part of the reject level, and the mean the rest.

    Args:
        sample: what was seen.
        metric: its metric.
        at: the edges; None where the metric is not gated.
        alpha_reject: one-sided level of the lower bound.
        alpha_promote: one-sided level of the upper bound.
        planned: the number of blocks at which the boundary is tightest.
        half_life_s: in what time half of all outages end; None: outages are not looked at.
    """
    harm = side(metric) * sample.estimate
    if not math.isfinite(harm):
        return Bounds(
            harm_low=-math.inf,
            harm_high=math.inf,
            fails=False,
            passes=False,
            alpha_reject=alpha_reject,
            alpha_promote=alpha_promote,
        )
    outage = None
    level = alpha_reject
    if half_life_s is not None and at is not None:
        level = alpha_reject * (1 - LEVEL_SHARE)
        outage = _endless(sample, at, alpha_reject * LEVEL_SHARE, half_life_s)
    low = harm - half_width(sample.spread, level, planned)
    high = harm + half_width(sample.spread, alpha_promote, planned)
    if sample.counts is not None:
        low = min(low, bound(*sample.counts, level, 1))
        high = max(high, bound(*sample.counts, alpha_promote, -1))
    return Bounds(
        harm_low=low,
        harm_high=high,
        fails=at is not None and (low > at.fail or outage is not None),
        passes=at is not None and high <= at.succeed and outage is None,
        alpha_reject=alpha_reject,
        alpha_promote=alpha_promote,
        outage=outage,
    )


def _endless(sample: Sample, at: Edges, alpha: float, half_life_s: float) -> Outage | None:
    """The outage that is evidence at a level; None where there is none."""
    if sample.excess is None or sample.begins_s is None:
        return None
    found = longest_outage(sample.excess, sample.begins_s, at.fail, half_life_s)
    return found if found is not None and found.log_e >= -math.log(alpha) else None


def noise_floor(sample: Sample, alpha: float, planned: int) -> float:
    """The half-width that this sample's noise leaves at `planned` blocks; infinite for few blocks.

    Args:
        sample: best of the control against the primary: nothing differs there but noise.
        alpha: one-sided level.
        planned: the number of blocks that was planned for.
    """
    seen = sample.spread
    if seen.blocks < MIN_BLOCKS or not math.isfinite(sample.estimate):
        return math.inf
    growth = planned / seen.blocks
    then = Spread(planned, seen.effective * growth, seen.se / math.sqrt(growth))
    return half_width(then, alpha, planned)


def remaining(
    sample: Sample, metric: Metric, limits: Bounds, at: Edges, planned: int
) -> float | None:
    """About how many more pairs decide, if all goes on as it is; None where that cannot be said.

    The number of blocks is raised by 5 % a step until the half-width is less than the distance
    of the harm to the nearest edge that it may cross; for shares the betting part is not looked at.
    """
    seen = sample.spread
    harm = side(metric) * sample.estimate
    gap = at.succeed - harm if harm < at.succeed else at.fail - harm
    passing = gap > 0 and harm < at.succeed
    if seen.blocks < 2 or not math.isfinite(gap) or (gap >= 0 and not passing):
        return None
    alpha = limits.alpha_promote if passing else limits.alpha_reject
    growth = 1.0
    while seen.blocks * growth < MOST_BLOCKS:
        growth *= 1.05
        grown = Spread(
            round(seen.blocks * growth), seen.effective * growth, seen.se / math.sqrt(growth)
        )
        if half_width(grown, alpha, planned) < abs(gap):
            return sample.pairs * (growth - 1)
    return None


def log_evidence(sample: Sample, metric: Metric, edge: float, planned: int) -> float:
    """The log of an e-value against harm <= edge; for shares the lesser of both ways to see it.

    Source: the mixture of Lai 1976 (t), and betting (2010.09686); both must agree.
    """
    harm = side(metric) * sample.estimate
    seen = sample.spread
    if not math.isfinite(harm) or seen.blocks < MIN_BLOCKS or seen.effective < MIN_EFFECTIVE:
        return 0.0
    rho2 = tuned_rho2(0.1, planned * seen.effective / seen.blocks)
    by_blocks = t_log_evidence((harm - edge) / seen.se, math.floor(seen.effective), rho2)
    if sample.counts is None:
        return by_blocks
    return min(by_blocks, betting_log_evidence(*sample.counts, edge, 1))
