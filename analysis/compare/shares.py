"""Shares of requests: failures, mismatches. The difference of two shares of the same requests."""

from __future__ import annotations

from analysis.compare.sample import Ints, Sample, Windows, per_block


def share_difference(windows: Windows, block: Ints, span_s: float) -> Sample:
    """Mean of Z = 1{this arm} - 1{reference}; psi_k = Σ_k (Z - mean Z) / mean pairs of a block.

    A block's variance is at least p̃(1-p̃)/m, p̃ = (bad + 2)/(pairs + 4) over all pairs, bad
    those that differ, m pairs a block: no failure at all, or nothing else, is no certainty.

    Args:
        windows: all of them in full blocks.
        block: each window's block, shape (W,).
        span_s: as in `Sample`.
    """
    pairs = float(windows.n.sum())
    plus, minus, zero = (
        float(count.sum()) for count in (windows.n_plus, windows.n_minus, windows.n_zero)
    )
    estimate = (plus - minus) / pairs
    smoothed = (plus + minus + 2) / (pairs + 4)
    influence = windows.n_plus - windows.n_minus - estimate * windows.n
    return Sample(
        estimate=estimate,
        value=float(windows.numerator.sum()) / pairs,
        reference_value=float(windows.reference_numerator.sum()) / pairs,
        pairs=pairs,
        span_s=span_s,
        influences=per_block(influence, windows.n, block),
        floor=smoothed * (1 - smoothed) * (int(block.max()) + 1) / pairs,
        counts=(plus, minus, zero),
    )
