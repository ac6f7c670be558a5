"""Shares of requests: failures, mismatches. The difference of two shares of the same requests."""

from __future__ import annotations

import numpy as np

from analysis.compare.sample import Floats, Ints, Sample, Windows, per_block
from analysis.statistics.bernstein import bernstein_range

RANGE_ALPHA = 0.05


def share_difference(windows: Windows, block: Ints, span_s: float) -> Sample:
    """Weighted mean of Z = 1{this arm} - 1{reference}; psi_k = Σ_k w(Z - mean Z) / mean weight.

    A block's variance is at least p̃(1-p̃)/m, p̃ = (bad + 2)/(pairs + 4) over all pairs, bad
    those that differ, m pairs a block: no failure at all, or nothing else, is no certainty.
    The betting bounds read the counts: they hold for equal weights, and near them for others.

    Args:
        windows: all of them in full blocks; sum_wd = Σ wZ, numerators Σ w·1{…}.
        block: each window's block, shape (W,).
        span_s: as in `Sample`.
    """
    pairs, weight = float(windows.n.sum()), float(windows.sum_w.sum())
    plus, minus, zero = (
        float(count.sum()) for count in (windows.n_plus, windows.n_minus, windows.n_zero)
    )
    estimate = float(windows.sum_wd.sum()) / weight
    smoothed = (plus + minus + 2) / (pairs + 4)
    influence = windows.sum_wd - estimate * windows.sum_w
    weights, bad, excess = (
        np.bincount(block, weights=column)
        for column in (windows.sum_w, windows.numerator, windows.sum_wd)
    )
    return Sample(
        estimate=estimate,
        value=float(windows.numerator.sum()) / weight,
        reference_value=float(windows.reference_numerator.sum()) / weight,
        pairs=pairs,
        span_s=span_s,
        influences=per_block(influence, windows.sum_w, block),
        floor=smoothed * (1 - smoothed) * (int(block.max()) + 1) / pairs,
        counts=(plus, minus, zero),
        value_range=bernstein_range(_clipped(bad / weights), RANGE_ALPHA),
        excess=excess / weights,
        begins_s=windows.starts[np.unique(block, return_index=True)[1]],
    )


def _clipped(shares: Floats) -> Floats:
    """Rounding leaves a share of weights a little outside of [0, 1]."""
    return np.clip(shares, 0.0, 1.0)
