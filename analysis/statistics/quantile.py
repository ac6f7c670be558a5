"""Quantiles of log-histograms, and what each block adds to a quantile's log-ratio.

Bin b holds x with floor(ln(x)/BIN) = b, so its left edge is exp(b·BIN).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

BIN = 0.005
"""Width of a bin on the natural log's scale: half a percent."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Weights by bin, bins ascending, and the weight beyond every bin (failed answers)."""

    bins: Ints
    counts: Floats
    infinite: float

    @property
    def weight(self) -> float:
        """Everything, the infinite included."""
        return float(self.counts.sum()) + self.infinite

    @property
    def finite_share(self) -> float:
        """The largest p whose quantile is finite."""
        return float(self.counts.sum()) / self.weight if self.weight else 0.0


def log_quantile(of: Histogram, p: float) -> float:
    """The log of Q(p), linear within a bin on the log scale; infinite where failed answers stand.

    Raises:
        ValueError: the histogram is empty.
    """
    if not of.weight:
        raise ValueError("an empty histogram has no quantile")
    target = p * of.weight
    cumulated = np.cumsum(of.counts)
    at = int(np.searchsorted(cumulated, target * (1 - 1e-12)))
    if at >= len(of.bins):
        return math.inf
    within = (target - (cumulated[at] - of.counts[at])) / of.counts[at]
    return (float(of.bins[at]) + min(max(float(within), 0.0), 1.0)) * BIN


def sparsity(of: Histogram, p: float, pairs: float) -> float:
    """The slope d ln Q / dp at p, by differences; one-sided where the upper end is infinite.

    s = [ln Q(p+h) - ln Q(p-h)]/(2h), h = min(½·min(p, 1-p), pairs^(-1/3)).
    Source: Siddiqui 1960; Bofinger 1975 for quotient estimators of the sparsity.
    """
    h = min(0.5 * min(p, 1 - p), float(pairs ** (-1 / 3)))
    upper = min(p + h, of.finite_share)
    lower = p - h
    return (log_quantile(of, upper) - log_quantile(of, lower)) / (upper - lower)
