"""The two bounds that decide, on the scale of harm: positive is worse for the user.

Harm is the estimate itself where lower is better, else its negative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from analysis.compare.sample import Sample
from analysis.metrics import Metric
from analysis.statistics.betting import bound
from analysis.statistics.blocks import Spread, half_width

MOST_BLOCKS = 10**7


@dataclass(frozen=True, slots=True)
class Bounds:
    """Harm lies above `harm_low` at the reject level, and below `harm_high` at the promote level.

    Attributes:
        harm_low, harm_high: the bounds; infinite while there are too few blocks.
        fails, passes: whether a bound has crossed the margin.
        alpha_reject, alpha_promote: the one-sided levels.
    """

    harm_low: float
    harm_high: float
    fails: bool
    passes: bool
    alpha_reject: float
    alpha_promote: float


def side(metric: Metric) -> int:
    """1 where lower is better, -1 where higher is."""
    return -1 if metric.better == "higher" else 1


def harm_margin(metric: Metric, margin: float) -> float:
    """A margin on the scale of harm: 5 % more is ln 1.05, 5 % fewer is -ln 0.95, 2 pp is 0.02."""
    if metric.kind == "share":
        return margin
    return math.log1p(margin) if metric.better != "higher" else -math.log1p(-margin)


def bounds(
    sample: Sample,
    metric: Metric,
    margin: float | None,
    alpha_reject: float,
    alpha_promote: float,
    planned: int,
) -> Bounds:
    """Both bounds. For shares the hull of block interval and betting: both must agree.

    Args:
        sample: what was seen.
        metric: its metric.
        margin: as a fraction; None where the metric is not gated.
        alpha_reject: one-sided level of the lower bound.
        alpha_promote: one-sided level of the upper bound.
        planned: the number of blocks at which the boundary is tightest.
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
    low = harm - half_width(sample.spread, alpha_reject, planned)
    high = harm + half_width(sample.spread, alpha_promote, planned)
    if sample.counts is not None:
        low = min(low, bound(*sample.counts, alpha_reject, 1))
        high = max(high, bound(*sample.counts, alpha_promote, -1))
    edge = math.inf if margin is None else harm_margin(metric, margin)
    gated = margin is not None
    return Bounds(
        harm_low=low,
        harm_high=high,
        fails=gated and low > edge,
        passes=gated and high <= edge,
        alpha_reject=alpha_reject,
        alpha_promote=alpha_promote,
    )


def remaining(
    sample: Sample, metric: Metric, limits: Bounds, margin: float, planned: int
) -> float | None:
    """About how many more pairs decide, if all goes on as it is; None where that cannot be said.

    The number of blocks is raised by 5 % a step until the half-width is less than the distance
    of the harm to the margin; for shares the betting part is not looked at.
    """
    seen = sample.spread
    gap = harm_margin(metric, margin) - side(metric) * sample.estimate
    if seen.blocks < 2 or not math.isfinite(gap) or gap == 0:
        return None
    alpha = limits.alpha_promote if gap > 0 else limits.alpha_reject
    growth = 1.0
    while seen.blocks * growth < MOST_BLOCKS:
        growth *= 1.05
        grown = Spread(
            round(seen.blocks * growth), seen.effective * growth, seen.se / math.sqrt(growth)
        )
        if half_width(grown, alpha, planned) < abs(gap):
            return sample.pairs * (growth - 1)
    return None
