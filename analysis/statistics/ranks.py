"""A quantile's always-valid range by ranks alone: no density, no variance, no histogram's shape."""

from __future__ import annotations

import math
from bisect import bisect_left

from scipy.special import betaln

from analysis.statistics.boundary import tuned_rho2

PLANNED = 2000
"""Observations at which the range is tightest."""


def quantile_ranks(count: int, p: float, alpha: float, planned: int = PLANNED) -> tuple[int, int]:
    """Ranks (from 1) between whose values Q(p) lies at all times, of independent observations.

    The number k of values up to Q(p) is judged by a Beta(a, b) mixture over its chance, centred
    on p: M = B(a + k, b + n - k)/B(a, b)/(p^k(1-p)^(n-k)), a = rho/(1-p), b = rho/p, rho tuned for
    `planned`; the least and the greatest k with M < 1/alpha, the latter plus 1, are the ranks.
    Source: Howard & Ramdas 2022 (1906.09712), theorem 1: the beta-binomial bound.

    Args:
        count: n, observations so far.
        p: which quantile, between 0 and 1.
        alpha: two-sided error level.
        planned: the number of observations at which the range is tightest.

    Returns:
        Low and high rank; 0 stands for the least possible value, n + 1 for infinity.
    """
    rho = 1 / tuned_rho2(alpha, planned * p * (1 - p))
    a, b = rho / (1 - p), rho / p
    goal, start = -math.log(alpha), float(betaln(a, b))

    def odd(k: int) -> bool:
        seen = float(betaln(a + k, b + count - k)) - start
        return seen - k * math.log(p) - (count - k) * math.log1p(-p) >= goal

    middle = round(p * count)  # the evidence falls up to the middle, and grows from there on
    low = bisect_left(range(middle), True, key=lambda k: not odd(k))
    high = bisect_left(range(middle, count + 1), True, key=odd) + middle
    return low, high
