"""Sample-ratio mismatch: did as many come by as should have? An e-value, valid at any time."""

from __future__ import annotations

import math

from scipy.special import betaln

MISMATCH = 1000.0
"""Odds against chance from which on a count is held to be wrong."""


def log_mismatch(expected: int, received: int, share: float) -> float:
    """The log of the e-value against `received : expected` being as `share : 1`.

    Beta(½, ½) mixture over the received share of all counted, against p = share/(1 + share):
    e = B(½ + r, ½ + n)/B(½, ½) / (p^r·(1-p)^n).
    Source: Dirichlet-multinomial e-value of Lindon & Malek (2011.03567), for two counts.

    Args:
        expected: requests that there were, n.
        received: how many of them came by, r.
        share: how many should have, of one.
    """
    p = share / (1 + share)
    seen = float(betaln(0.5 + received, 0.5 + expected) - betaln(0.5, 0.5))
    return seen - received * math.log(p) - expected * math.log1p(-p)
