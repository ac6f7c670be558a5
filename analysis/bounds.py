"""The two bounds that decide, on the scale of harm."""

from __future__ import annotations

import math
from dataclasses import dataclass

from analysis.compare.sample import Sample
from analysis.harm import Edges, side
from analysis.metrics import Metric
from analysis.statistics.betting import bound
from analysis.statistics.betting import log_evidence as betting_log_evidence
from analysis.statistics.blocks import MIN_BLOCKS, MIN_EFFECTIVE, half_width
from analysis.statistics.boundary import t_log_evidence, tuned_rho2
from analysis.statistics.outages import LEVEL_SHARE, Outage, longest_outage


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
        return Bounds(-math.inf, math.inf, False, False, alpha_reject, alpha_promote)
    outage, level = None, alpha_reject
    if half_life_s is not None and at is not None:
        level = alpha_reject * (1 - LEVEL_SHARE)
        outage = _endless(sample, at, alpha_reject * LEVEL_SHARE, half_life_s)
    low, high = _hull(sample, harm, level, alpha_promote, planned)
    return Bounds(
        harm_low=low,
        harm_high=high,
        fails=at is not None and (low > at.fail or outage is not None),
        passes=at is not None and high <= at.succeed and outage is None,
        alpha_reject=alpha_reject,
        alpha_promote=alpha_promote,
        outage=outage,
    )


def _hull(
    sample: Sample, harm: float, alpha_low: float, alpha_high: float, planned: int
) -> tuple[float, float]:
    """The block interval; of a share widened to where betting's ends lie beyond it."""
    low = harm - half_width(sample.spread, alpha_low, planned)
    high = harm + half_width(sample.spread, alpha_high, planned)
    if sample.counts is None:
        return low, high
    return (
        min(low, bound(*sample.counts, alpha_low, 1)),
        max(high, bound(*sample.counts, alpha_high, -1)),
    )


def _endless(sample: Sample, at: Edges, alpha: float, half_life_s: float) -> Outage | None:
    """The outage that is evidence at a level; None where there is none."""
    if sample.excess is None or sample.begins_s is None:
        return None
    found = longest_outage(sample.excess, sample.begins_s, at.fail, half_life_s)
    return found if found is not None and found.log_e >= -math.log(alpha) else None


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
