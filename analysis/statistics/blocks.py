"""From windows to blocks, and the half-width of a mean of autocorrelated blocks.

Requests that arrive together wait in the same queue, so the unit is the block, never the request.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.statistics.boundary import anytime_t, tuned_rho2

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MIN_BLOCKS = 9
MIN_EFFECTIVE = 8.0
MAX_PHI = 0.97
BEYOND = 4


@dataclass(frozen=True, slots=True)
class Spread:
    """How far a mean of blocks may be off, before a level is chosen.

    Attributes:
        blocks: K.
        effective: K_eff, what K blocks are worth under their autocorrelation.
        se: standard error of the mean.
    """

    blocks: int
    effective: float
    se: float


def block_of(starts: Ints, pairs: Floats, every: int, least: float) -> Ints:
    """Which block each window belongs to.

    Args:
        starts: windows' starts in units of one's choice, ascending, shape (W,).
        pairs: pairs in each, shape (W,).
        every: a block's length in the unit of `starts`; windows of one slice stay together.
        least: a block takes further slices until it has this many pairs.

    Returns:
        Block numbers from 0, shape (W,); -1 where the last block is not full yet.
    """
    owner = np.full(len(starts), -1, dtype=np.int64)
    block, first, held = 0, 0, 0.0
    slices = starts // every
    for i in range(len(starts)):
        held += pairs[i]
        ends = i + 1 == len(starts) or slices[i + 1] != slices[i]
        if ends and held >= least:
            owner[first : i + 1] = block
            block, first, held = block + 1, i + 1, 0.0
    return owner


def tail_pairs(p: float) -> int:
    """The least pairs of a block for a quantile: four of them beyond it, 4/(1 - p).

    With fewer, what a block says of a far quantile is hardly more than yes or no, and bursts that
    outlast a block go unseen; docs/calibration.md has it measured.
    """
    return math.ceil(BEYOND / (1 - p) - 1e-9)


def phi(deviations: Floats) -> float:
    """AR(1) coefficient of block deviations, corrected for its bias in short series.

    phi = Σ d_k·d_(k-1) / Σ d_k², then clip(phi + (1 + 3·phi)/K, 0, 0.97); 1/K if every d is 0.
    Source: Kendall's bias correction of the lag-1 autocorrelation.
    """
    blocks = len(deviations)
    power = float(deviations @ deviations)
    if power == 0:
        return 1 / blocks
    raw = float(deviations[1:] @ deviations[:-1]) / power
    return min(max(raw + (1 + 3 * raw) / blocks, 0.0), MAX_PHI)


def spread(values: Floats, floor: float) -> Spread:
    """Standard error of the mean of blocks, AR(1)-prewhitened.

    K_eff = K(1-phi)/(1+phi), SE = sqrt(max(s², floor)/K_eff), s² with K-1 in its denominator.

    Args:
        values: one influence a block, shape (K,).
        floor: the least variance of a block, so that equal blocks are no certainty.
    """
    blocks = len(values)
    if blocks < 2:
        return Spread(blocks, float(blocks), math.inf)
    deviations = values - values.mean()
    if np.abs(deviations).max() <= 1e-12 * max(1.0, float(np.abs(values).max())):
        deviations = np.zeros(blocks)  # rounding is no signal
    correlation = phi(deviations)
    effective = blocks * (1 - correlation) / (1 + correlation)
    variance = max(float(deviations @ deviations) / (blocks - 1), floor)
    return Spread(blocks, effective, math.sqrt(variance / effective))


def half_width(of: Spread, alpha: float, planned: int) -> float:
    """Half of a confidence sequence's width for the mean of blocks, at a one-sided level.

    half = SE·kappa_t(⌊K_eff⌋; planned·K_eff/K); infinite below 9 blocks or 8 effective ones.

    Args:
        of: the blocks' spread.
        alpha: one-sided error level.
        planned: the number of blocks at which the boundary is tightest.
    """
    if of.blocks < MIN_BLOCKS or of.effective < MIN_EFFECTIVE:
        return math.inf
    rho2 = tuned_rho2(2 * alpha, planned * of.effective / of.blocks)
    return of.se * anytime_t(math.floor(of.effective), 2 * alpha, rho2)
