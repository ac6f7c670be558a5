"""An always-valid range for the mean of values in [0, 1] of which nothing else is known."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
MOST_BET = 0.5


def bernstein_range(values: Floats, alpha: float) -> tuple[float, float]:
    """The predictable plug-in empirical Bernstein confidence sequence at its last value.

    Σ λx/Σ λ ± (ln(2/alpha) + Σ ψ(λ)(x - μ̂)²)/Σ λ, ψ(λ) = -ln(1 - λ) - λ,
    λ_t = min(√(2·ln(2/alpha)/(v_(t-1)·t·ln(1 + t))), ½); μ̂ and v are known before x is:
    μ̂_t = (½ + Σ x)/(t + 1), v_t = (¼ + Σ(x - μ̂)²)/(t + 1).
    Source: Waudby-Smith & Ramdas 2024 (2010.09686), theorem 2.

    Args:
        values: in order of time, each in [0, 1], shape (T,).
        alpha: two-sided error level.

    Returns:
        Low and high end, within [0, 1].
    """
    count = len(values)
    if not count:
        return 0.0, 1.0
    t = np.arange(1, count + 1)
    mean = (0.5 + values.cumsum()) / (t + 1)
    variance = (0.25 + ((values - mean) ** 2).cumsum()) / (t + 1)
    mean_before = np.concatenate([[0.5], mean[:-1]])
    variance_before = np.concatenate([[0.25], variance[:-1]])
    goal = math.log(2 / alpha)
    bets = np.minimum(np.sqrt(2 * goal / (variance_before * t * np.log1p(t))), MOST_BET)
    cost = ((-np.log1p(-bets) - bets) * (values - mean_before) ** 2).sum()
    centre, half = float(bets @ values / bets.sum()), float((goal + cost) / bets.sum())
    return max(centre - half, 0.0), min(centre + half, 1.0)
