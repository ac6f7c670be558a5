"""How the error level is spread over the comparisons of one build."""

from __future__ import annotations

import math


def attempt_share(attempt: int) -> float:
    """The share of alpha that the n-th comparison of one build has: 6/(π²n²); all add up to 1."""
    return 6 / (math.pi**2 * attempt**2)
