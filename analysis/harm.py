"""The scale of harm: positive is worse for the user.

Harm is the estimate itself where lower is better, else its negative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from analysis.metrics import Metric


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
