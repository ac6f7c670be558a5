"""Shares of requests: failures, mismatches. The difference of two shares of the same requests."""

from __future__ import annotations

import numpy as np

from analysis.compare.sample import Floats, Ints, Sample, Windows, kish_blocks, per_block
from analysis.statistics.bernstein import bernstein_range

RANGE_ALPHA = 0.05


def share_difference(windows: Windows, block: Ints, span_s: float) -> Sample:
    """Weighted mean of Z = 1{this arm} - 1{reference}; psi_k = Σ_k w(Z - mean Z) / mean weight.

    A block's variance is at least p̃(1-p̃)/m, p̃ = (bad + 2)/(pairs + 4) over all pairs, bad
    those that differ, m pairs a block: no failure at all, or nothing else, is no certainty.
    Pairs are Kish's effective ones here, (Σw)²/Σw², and so are the counts that betting reads: with
    equal weights they are what was counted, with others the bets hold nearly.

    Args:
        windows: all of them in full blocks; sum_wd = Σ wZ, sum_wd2 = Σ w|Z|, numerators Σ w·1{…}.
        block: each window's block, shape (W,).
        span_s: as in `Sample`.
    """
    weight = float(windows.sum_w.sum())
    kish = weight**2 / float(windows.sum_w2.sum())
    counts = _counts(windows, kish / weight)
    estimate = float(windows.sum_wd.sum()) / weight
    smoothed = (counts[0] + counts[1] + 2) / (kish + 4)
    influence = windows.sum_wd - estimate * windows.sum_w
    weights, bad, excess = (
        np.bincount(block, weights=column)
        for column in (windows.sum_w, windows.numerator, windows.sum_wd)
    )
    return Sample(
        estimate=estimate,
        value=float(windows.numerator.sum()) / weight,
        reference_value=float(windows.reference_numerator.sum()) / weight,
        pairs=float(windows.n.sum()),
        span_s=span_s,
        influences=per_block(influence, windows.sum_w, block),
        kish=kish_blocks(windows.sum_w, block),
        floor=smoothed * (1 - smoothed) * (int(block.max()) + 1) / kish,
        counts=counts,
        value_range=bernstein_range(_clipped(bad / weights), RANGE_ALPHA),
        excess=excess / weights,
        begins_s=windows.starts[np.unique(block, return_index=True)[1]],
    )


def _clipped(shares: Floats) -> Floats:
    """Rounding leaves a share of weights a little outside of [0, 1]."""
    return np.clip(shares, 0.0, 1.0)


def _counts(windows: Windows, scale: float) -> tuple[float, float, float]:
    """n₊, n₋, n₀ by weight, in effective pairs."""
    differ, net = float(windows.sum_wd2.sum()), float(windows.sum_wd.sum())
    plus, minus = max(differ + net, 0.0) / 2 * scale, max(differ - net, 0.0) / 2 * scale
    return plus, minus, max(float(windows.sum_w.sum()) * scale - plus - minus, 0.0)
