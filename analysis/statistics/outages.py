"""An outage that does not end, as evidence of its own: a mean over all time sees it late.

A candidate that dies in mid-run is one event to a test that takes dependence seriously: the blocks
before and after are two long runs, worth a handful of effective blocks. So outages are also bet on
one by one: that one goes on, block after block, where outages should end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.statistics.attempts import attempt_share

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

POINTS = 0.10
"""A block is an outage where failures exceed their edge by so much."""
LEVEL_SHARE = 0.2
"""Of a share's reject level: this part is for outages, the rest for its mean."""


@dataclass(frozen=True, slots=True)
class Outage:
    """The outage with the most evidence against ending as outages should.

    Attributes:
        log_e: the log of the e-value.
        blocks: how many blocks it has lasted.
        begin_s: when its first block began, in the unit of the blocks' begins.
        seconds: from there to the begin of its last block, at least so long.
    """

    log_e: float
    blocks: int
    begin_s: int
    seconds: float


def longest_outage(
    excess: Floats, begins_s: Ints, edge: float, half_life_s: float
) -> Outage | None:
    """The outage that went on for the oddest time; None where no block is one.

    Null: a block of outage is followed by another one with chance 2^-min(b/half_life, 1) at most, b
    seconds from the block's begin to the next one's. So e_j = Π 2^min(b/half_life, 1) over the
    blocks after the first is an e-process of the j-th outage, and Σ 6/(π²j²)·e_j one of all of them
    (an outage that ended has e = 0). It may be looked at any time, and its maximum so far counts.
    Source: products of likelihood ratios, Ville's inequality; weights as `attempt_share`.

    Args:
        excess: a block's share of failures above the reference's, shape (K,).
        begins_s: when each block begins, ascending, shape (K,).
        edge: what the share may exceed the reference's by; an outage is `POINTS` beyond it.
        half_life_s: in what time a half of all outages should have ended.
    """
    down = np.concatenate([[False], excess > edge + POINTS, [False]])
    firsts = np.flatnonzero(~down[:-1] & down[1:])
    lasts = np.flatnonzero(down[:-1] & ~down[1:]) - 1
    found = [
        _outage(number, begins_s[first : last + 1], half_life_s)
        for number, (first, last) in enumerate(zip(firsts, lasts, strict=True), 1)
    ]
    return max(found, key=lambda one: one.log_e, default=None)


def _outage(number: int, begins_s: Ints, half_life_s: float) -> Outage:
    steps = np.diff(begins_s)
    halves = float(np.minimum(steps / half_life_s, 1.0).sum())
    log_e = math.log(attempt_share(number)) + halves * math.log(2)
    return Outage(log_e, len(begins_s), int(begins_s[0]), float(steps.sum()))


def blocks_until(alpha: float) -> int:
    """Blocks, each a half-life or longer, after which a first outage is evidence at a level."""
    return 1 + math.ceil(math.log2(1 / (alpha * attempt_share(1))))
