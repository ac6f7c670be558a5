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
MOST: Final = 19
"""Pairs: fewer prove nothing, so many end it: with the ten seconds before they are thirty."""
BLAMED: Final = (
    *(6.87, 5.96, 5.41, 5.04, 4.78, 4.59, 4.44),
    *(4.32, 4.22, 4.14, 4.07, 4.01, 3.97, 3.92),
)
"""Student's t at 0.9995, for 5 to 18 degrees of freedom."""
CLEARED: Final = (
    *(2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20),
    *(2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10),
)
"""Student's t at 0.975."""


def weigh(added: Sequence[float]) -> Finding:
    """Whether mirroring makes the loop late, as far as these pairs tell. Asked after each pair.

    Guilty: a one-sided bound at 0.9995 is above `ADDS`, of the mean or of the trimmed mean, which
    a few pairs with a burst of the machine's own do not blur. Cleared: one of the mean at 0.975 is
    below; the trimmed one would overlook rare long stalls.

    A machine's noise comes in bursts, so pairs are the unit, not ticks, and their own spread is the
    measure; the drawn order makes a pair as likely to err one way as the other, and then heavy
    tails leave the t-test on the safe side. Fourteen looks blame what adds just `ADDS` in less than
    1 % of probes, what adds nothing in less than 0.4 %; a noise whose rhythm is just that of the
    slices in 8 %, for a few pairs have few orders. (Simulated in the tests.)

    Args:
        added: of each pair, the share of late ticks with mirroring minus that without, -1 to 1.
    """
    pairs = len(added)
    if pairs < LEAST:
        return ""
    in_order = sorted(added)
    mean, error = _mean(in_order, 0)
    trim = pairs // 5 if pairs > LEAST + 1 else 0
    middle, its_error = _mean(in_order, trim)
    if (
        mean - BLAMED[pairs - LEAST] * error > ADDS
        or middle - BLAMED[pairs - 2 * trim - LEAST] * its_error > ADDS
    ):
        return "guilty"
    if mean + CLEARED[pairs - LEAST] * error < ADDS:
        return "cleared"
    return "" if pairs < MOST else "unclear"


def _mean(in_order: Sequence[float], trim: int) -> tuple[float, float]:
    """The mean of all but `trim` at each end, and its standard error (Yuen 1974)."""
    pairs = len(in_order)
    kept = list(in_order[trim : pairs - trim])
    drawn_in = [kept[0]] * trim + kept + [kept[-1]] * trim
    h = len(kept)
    error = (statistics.variance(drawn_in) * (pairs - 1) / (h * (h - 1))) ** 0.5
    return statistics.fmean(kept), error
