"""What more of the same would say: the noise that stays, the pairs that would decide."""

from __future__ import annotations

import math

from analysis.bounds import Bounds
from analysis.compare.sample import Sample
from analysis.harm import Edges, side
from analysis.metrics import Metric
from analysis.statistics.blocks import MIN_BLOCKS, Spread, half_width

MOST_BLOCKS = 10**7


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
    return half_width(_grown(seen, planned / seen.blocks), alpha, planned)


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
        if half_width(_grown(seen, growth), alpha, planned) < abs(gap):
            return sample.pairs * (growth - 1)
    return None


def _grown(seen: Spread, growth: float) -> Spread:
    """The spread of so many times the blocks, all of the same kind."""
    return Spread(round(seen.blocks * growth), seen.effective * growth, seen.se / math.sqrt(growth))
