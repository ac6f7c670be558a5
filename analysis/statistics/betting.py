"""Testing by betting: is a difference of shares beyond a margin? Exact, also for rare events.

Z = 1{this arm bad} - 1{reference bad} per pair: n_plus times 1, n_minus times -1, n_zero times 0.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp

_FRACTIONS = 0.9 * 2.0 ** -np.arange(9)


def log_evidence(n_plus: float, n_minus: float, n_zero: float, margin: float, sign: int) -> float:
    """The log of the e-value against E[Z] <= margin (sign 1) or E[Z] >= margin (sign -1).

    W = mean over lambda of (1+λs(1-δ))^n₊ · (1-λs(1+δ))^n₋ · (1-λsδ)^n₀,
    λ in {0.9·2^-i/(1+sδ)}, i = 0…8. Evidence at level alpha is W >= 1/alpha, at any time.
    Source: Waudby-Smith & Ramdas 2024 (2010.09686), with a uniform mixture of bets.

    Args:
        n_plus: pairs of which this arm alone is bad.
        n_minus: pairs of which the reference alone is bad.
        n_zero: the others.
        margin: δ, between -1 and 1.
        sign: 1 looks for more than the margin, -1 for less.
    """
    bets = _FRACTIONS / (1 + sign * margin)
    logs = (
        n_plus * np.log1p(bets * sign * (1 - margin))
        + n_minus * np.log1p(-bets * sign * (1 + margin))
        + n_zero * np.log1p(-bets * sign * margin)
    )
    return float(logsumexp(logs) - math.log(len(bets)))


def bound(n_plus: float, n_minus: float, n_zero: float, alpha: float, sign: int) -> float:
    """The bound on E[Z] at a one-sided level: lower for sign 1, upper for sign -1.

    It is the margin at which the evidence reaches 1/alpha; -1 or 1 where it never does.
    """
    goal = -math.log(alpha)
    edge = 1 - 1e-9

    def short(margin: float) -> float:
        return log_evidence(n_plus, n_minus, n_zero, margin, sign) - goal

    mean = (n_plus - n_minus) / max(n_plus + n_minus + n_zero, 1.0)
    inner = min(max(mean, -edge), edge)
    outer = -edge * sign
    if short(outer) < 0:
        return -float(sign)
    if short(inner) >= 0:  # every pair is the same: the mean itself is the edge of what can be
        return inner
    return float(brentq(short, outer, inner, xtol=1e-7))
