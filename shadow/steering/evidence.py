"""Whether mirroring makes the loop late: pairs of slices with it and without, weighed. Pure.

A tick is late if it comes later than the limit. p99 above the limit says that more than one tick in
a hundred is; what mirroring adds is the share of late ticks with it minus that without, both from
slices of time that follow each other in drawn order. Mirroring is the cause if what it adds is by
itself more than one in a hundred: then it alone puts p99 above the limit.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final, Literal

Finding = Literal["", "guilty", "cleared", "unclear"]
""""": more pairs are needed; unclear: as many as there may be have not told."""

ADDS: Final = 0.01
"""The share of late ticks that mirroring may add."""
LEAST: Final = 6
MOST: Final = 16
"""Pairs: fewer prove nothing, so many end it."""
BLAMED: Final = (5.89, 5.21, 4.79, 4.50, 4.30, 4.14, 4.02, 3.93, 3.85, 3.79, 3.73)
"""Student's t at 0.999, for 6 to 16 pairs."""
CLEARED: Final = (2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)
"""Student's t at 0.975, for 6 to 16 pairs."""


def weigh(added: Sequence[float]) -> Finding:
    """Whether mirroring makes the loop late, as far as these pairs tell. Asked after each pair.

    Guilty: a one-sided bound at 0.999 of the mean is above `ADDS`; cleared: one at 0.975 is below.
    A machine's noise comes in bursts, so pairs are the unit, not ticks, and their own spread is the
    measure; the drawn order makes a pair as likely to err one way as the other, and then heavy
    tails leave the t-test on the safe side. Eleven looks blame what adds just `ADDS` in less than
    1 % of probes, what adds nothing in less than 0.2 %; a noise whose rhythm is just that of the
    slices in 3 %, for a few pairs have few orders. (Simulated in the tests.)

    Args:
        added: of each pair, the share of late ticks with mirroring minus that without, -1 to 1.
    """
    pairs = len(added)
    if pairs < LEAST:
        return ""
    last = min(pairs, MOST) - LEAST
    mean, error = statistics.fmean(added), statistics.stdev(added) / pairs**0.5
    if mean - BLAMED[last] * error > ADDS:
        return "guilty"
    if mean + CLEARED[last] * error < ADDS:
        return "cleared"
    return "" if pairs < MOST else "unclear"
