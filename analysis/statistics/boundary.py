"""Multipliers of a standard error that hold at any time, however often one looks.

All error levels here are two-sided; a one-sided level a is 2a here.
"""

from __future__ import annotations

import math

from scipy.special import lambertw


def tuned_rho2(alpha: float, planned: float) -> float:
    """The mixture's variance that makes the boundary tightest at `planned` observations.

    rho2 = (-W₋₁(-alpha²/e) - 1) / planned, W₋₁ the lower branch of Lambert's W.
    Source: Waudby-Smith et al. 2024 (arXiv 2103.06476), eq. for the optimal rho.
    """
    lower_branch = float(lambertw(-(alpha**2) / math.e, k=-1).real)
    return (-lower_branch - 1) / planned


def normal_mixture(observations: float, alpha: float, rho2: float) -> float:
    """The multiplier kappa: estimate ± kappa·SE is an asymptotic confidence sequence.

    kappa = sqrt((1 + 1/(t·rho2))·ln((t·rho2 + 1)/alpha²)).
    Source: Robbins; Howard et al. 2021 (1810.08240); Waudby-Smith et al. 2024 (2103.06476).
    """
    scaled = observations * rho2
    return math.sqrt((1 + 1 / scaled) * math.log((scaled + 1) / alpha**2))


def anytime_t(blocks: int, alpha: float, rho2: float) -> float:
    """The multiplier for a mean of `blocks` values of unknown variance; infinite for too few.

    r = 1/(1 + K·rho2), c = (1/(alpha·sqrt(r)))^(2/K), kappa = sqrt((K-1)(c-1)/(1-c·r)).
    That it is infinite for small K is the burn-in; no other minimum is needed.
    Source: Lai 1976; Wang & Ramdas (2310.03722); Lindon et al. (2210.08589).
    """
    if blocks < 2:
        return math.inf
    r = 1 / (1 + blocks * rho2)
    log_c = (2 / blocks) * (-math.log(alpha) - 0.5 * math.log(r))
    if log_c + math.log(r) >= 0:
        return math.inf
    c = math.exp(log_c)
    return math.sqrt((blocks - 1) * (c - 1) / (1 - c * r))


def t_log_evidence(deviation: float, blocks: int, rho2: float) -> float:
    """The log of the e-value behind `anytime_t`: how odd a mean so many standard errors above is.

    e = sqrt(r)·[(1 + T²/(K-1))/(1 + r·T²/(K-1))]^(K/2), r = 1/(1 + K·rho2); below the edge (T <= 0)
    there is no evidence: e is at most sqrt(r). It reaches 1/alpha where |T| reaches the multiplier.
    Source: as `anytime_t`.

    Args:
        deviation: T, (mean - edge)/SE.
        blocks: K, effective ones.
        rho2: the mixture's variance.
    """
    if blocks < 2:
        return 0.0
    r = 1 / (1 + blocks * rho2)
    squared = max(deviation, 0.0) ** 2 / (blocks - 1)
    return 0.5 * math.log(r) + blocks / 2 * (math.log1p(squared) - math.log1p(r * squared))
