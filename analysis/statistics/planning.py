"""How many pairs a decision takes, before there are any."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import multivariate_normal, norm

LEVELS = (0.05, 0.025, 0.01, 0.05 / 6)
NEEDED = {0.8: (10.9, 12.6, 15.6, 16.2), 0.9: (14.0, 16.1, 19.4, 20.1)}
"""(half-width / gap)² that a share of runs reaches, looked at all the time: by one-sided level."""
BETS = 9


def multiplier(alpha: float, power: float) -> float:
    """M of n = M·V·DE/gap², for an anytime-valid bound that is tuned for about n.

    Linear in ln alpha between and beyond simulated levels.
    Source: simulation of the boundary in the Brownian limit.

    Args:
        alpha: one-sided level.
        power: the share of runs that decide by then: 0.8 or 0.9.
    """
    slope, start = np.polyfit(np.log(LEVELS), NEEDED[power], 1)
    if alpha < LEVELS[-1] or alpha > LEVELS[0]:
        return float(start + slope * math.log(alpha))
    return float(np.interp(math.log(alpha), np.log(LEVELS[::-1]), NEEDED[power][::-1]))


def mean_variance(sigma: float, correlation: float) -> float:
    """V of the mean paired log-ratio: 2·sigma²·(1 - r), log-normal times."""
    return 2 * sigma**2 * (1 - correlation)


def quantile_variance(p: float, sigma: float, correlation: float) -> float:
    """V of the paired log-ratio of quantiles: 2(p - Φ₂(z_p, z_p; r))·sigma²/φ(z_p)².

    Source: Bahadur's representation on both sides; Φ₂ the bivariate normal distribution.
    """
    z = float(norm.ppf(p))
    both = float(
        multivariate_normal.cdf([z, z], mean=[0, 0], cov=[[1, correlation], [correlation, 1]])
    )
    return 2 * (p - both) * sigma**2 / float(norm.pdf(z)) ** 2


def share_variance(rate: float) -> float:
    """V of a difference of two independent shares of the same rate: 2r(1-r)."""
    return 2 * rate * (1 - rate)


def least_pairs_of_share(margin: float, alpha: float) -> float:
    """Pairs without any event after which a share passes its margin: (ln 9/alpha)/ln(1 + λδ).

    λ = 0.9/(1 - δ), the largest of nine bets. Source: the betting test itself.
    """
    bet = 0.9 / (1 - margin)
    return (math.log(1 / alpha) + math.log(BETS)) / math.log1p(bet * margin)
