"""Many hypotheses at once: which of them stand when the share of false finds is bounded."""

from __future__ import annotations

import math
from collections.abc import Sequence


def e_bh(log_e: Sequence[float], rate: float) -> list[bool]:
    """Which hypotheses are rejected at a false discovery rate, under any dependence: e-BH.

    The k largest e-values are rejected, k the greatest with e_(k) >= n/(k·rate). On present
    e-values only: running maxima of e-processes would lose the guarantee (2501.19360).
    Source: Wang & Ramdas 2022 (2009.02824).

    Args:
        log_e: logs of the e-values, n of them.
        rate: the share of false ones among the rejected, in expectation.
    """
    order = sorted(range(len(log_e)), key=lambda i: -log_e[i])
    most = 0
    for k, i in enumerate(order, 1):
        if log_e[i] >= math.log(len(log_e) / (k * rate)):
            most = k
    rejected = set(order[:most])
    return [i in rejected for i in range(len(log_e))]
