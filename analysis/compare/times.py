"""Latencies: the paired log-ratio's mean, and the paired log-ratio of quantiles."""

from __future__ import annotations

import math

import numpy as np

from analysis.compare.sample import Floats, Ints, Sample, Windows, per_block
from analysis.statistics.quantile import BIN, Histogram, log_quantile, sparsity

RESOLUTION = 1e-6
"""The least spread of a mean log-ratio: the clock's steps against a time, about 1 ns in 1 ms."""


def mean_log_ratio(windows: Windows, block: Ints, span_s: float) -> Sample:
    """The mean over pairs of d = ln(x / reference x), d clipped to ±ln 10.

    psi_k = Σ_k w(d - mean d) / mean weight of a block. Its exponential is the typical ratio of
    one request's two answers; that is not the ratio of two means.

    Args:
        windows: all of them in full blocks.
        block: each window's block, shape (W,).
        span_s: as in `Sample`.
    """
    weight = float(windows.sum_w.sum())
    estimate = float(windows.sum_wd.sum()) / weight
    value, reference = _geometric_means(windows)
    return Sample(
        estimate=estimate,
        value=value,
        reference_value=reference,
        pairs=float(windows.n.sum()),
        span_s=span_s,
        influences=per_block(windows.sum_wd - estimate * windows.sum_w, windows.sum_w, block),
        floor=RESOLUTION**2,
    )


def _geometric_means(windows: Windows) -> tuple[float, float]:
    """Of both sides, over pairs that finished on both: the sums hold ln x. NaN where none did."""
    finished = float(windows.denominator.sum())
    if not finished:
        return math.nan, math.nan
    logs = (windows.numerator, windows.reference_numerator)
    value, reference = (math.exp(float(log.sum()) / finished) for log in logs)
    return value, reference


def quantile_log_ratio(
    windows: Windows,
    block: Ints,
    span_s: float,
    p: float,
    totals: tuple[Histogram, Histogram],
    below: tuple[Floats, Floats],
) -> Sample:
    """The block-linearised paired log-ratio of quantiles.

    theta = ln Q_c(p) - ln Q_b(p) over all; psi_k = s_b(F_(b,k)(Q_b) - p) - s_c(F_(c,k)(Q_c) - p),
    with the sparsities s of both sides; blocks weigh as `per_block` says.
    Source: Bahadur's representation of a sample quantile, summed by blocks.

    Args:
        windows: all of them in full blocks.
        block: each window's block, shape (W,).
        span_s: as in `Sample`.
        p: which quantile, between 0 and 1.
        totals: histograms over all windows, this arm's and the reference's.
        below: weight below the quantile in each window, this arm's and the reference's, (W,).
    """
    pairs = float(windows.n.sum())
    logs = [log_quantile(total, p) for total in totals]
    influence = np.zeros(len(windows))
    if all(map(math.isfinite, logs)):
        for total, under, sign in zip(totals, below, (-1.0, 1.0), strict=True):
            influence += sign * sparsity(total, p, pairs) * (under - p * windows.sum_w)
    return Sample(
        estimate=logs[0] - logs[1] if math.isfinite(logs[1]) else math.nan,
        value=math.exp(logs[0]),
        reference_value=math.exp(logs[1]),
        pairs=pairs,
        span_s=span_s,
        influences=per_block(influence, windows.sum_w, block),
        floor=BIN**2,
    )
