"""Latencies: the paired log-ratio's mean, and the paired log-ratio of quantiles."""

from __future__ import annotations

import math

import numpy as np

from analysis.compare.sample import Floats, Ints, Sample, Windows, kish_blocks, per_block
from analysis.statistics.quantile import BIN, Histogram, log_quantile, sparsity
from analysis.statistics.ranks import quantile_ranks

RESOLUTION = 1e-6
"""The least spread of a mean log-ratio: the clock's steps against a time, about 1 ns in 1 ms."""
MOST_FAILED = 0.05
"""Where more pairs than these failed on one side, their mean would speak of the cap alone."""
RANGE_ALPHA = 0.05


def mean_log_ratio(windows: Windows, block: Ints, span_s: float) -> Sample:
    """The mean over pairs of d = ln(x / reference x), d clipped to ±ln 10.

    psi_k = Σ_k w(d - mean d) / mean weight of a block. Its exponential is the typical ratio of
    one request's two answers; that is not the ratio of two means. A pair that failed on one side
    lies at the cap; where more than `MOST_FAILED` did, the estimate is NaN.

    Args:
        windows: all of them in full blocks.
        block: each window's block, shape (W,).
        span_s: as in `Sample`.
    """
    weight = float(windows.sum_w.sum())
    failed = max(1 - float(windows.denominator.sum()) / weight, 0.0)
    estimate = float(windows.sum_wd.sum()) / weight
    told = failed <= MOST_FAILED
    value, reference = _geometric_means(windows) if told else (math.nan, math.nan)
    return Sample(
        estimate=estimate if told else math.nan,
        value=value,
        reference_value=reference,
        pairs=float(windows.n.sum()),
        span_s=span_s,
        influences=per_block(windows.sum_wd - estimate * windows.sum_w, windows.sum_w, block),
        kish=kish_blocks(windows.sum_w, block),
        floor=RESOLUTION**2,
        failed=failed,
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
        kish=kish_blocks(windows.sum_w, block),
        floor=BIN**2,
        value_range=_range(totals[0], p, pairs),
    )


def _range(total: Histogram, p: float, pairs: float) -> tuple[float, float]:
    """Where this arm's quantile lies, were its requests independent; in the metric's unit."""
    low, high = quantile_ranks(round(pairs), p, RANGE_ALPHA)
    return (
        math.exp(log_quantile(total, low / pairs)) if low > 0 else 0.0,
        math.exp(log_quantile(total, high / pairs)) if high <= pairs else math.inf,
    )
