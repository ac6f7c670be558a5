"""The shapes that every comparison has in common: a metric's windows, and what they say."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from analysis.statistics.blocks import Spread, spread

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Windows:
    """One metric of one contrast, one row a window, ascending; every array of shape (W,).

    Columns are those of the table `windows`; `starts` counts seconds since 1970.
    """

    starts: Ints
    n: Floats
    sum_w: Floats
    sum_w2: Floats
    sum_wd: Floats
    sum_wd2: Floats
    numerator: Floats
    denominator: Floats
    reference_numerator: Floats
    reference_denominator: Floats

    def __len__(self) -> int:
        return len(self.starts)

    def where(self, keep: npt.NDArray[np.bool_]) -> Self:
        """The windows for which `keep` is true."""
        return replace(self, **{f.name: getattr(self, f.name)[keep] for f in fields(self)})


@dataclass(frozen=True, slots=True)
class Sample:
    """An estimate and how each block of arrivals moved it.

    Attributes:
        estimate: ln of a ratio, or a difference of shares; infinite or NaN where it is not known.
        value, reference_value: both sides in the metric's own unit.
        pairs: pairs behind it.
        span_s: seconds from the first block's begin to the last one's end.
        influences: one a block, shape (K,); their mean is 0 up to rounding, their spread its error.
        floor: the least variance of a block's influence.
        counts: (n_plus, n_minus, n_zero) of a share, else none.
        failed: of a mean of times, the share of pairs that failed on one side alone: they count as
            tenfold, and where they are many there is no estimate.
        value_range: where this arm's own value lies, at the 5 % level, whenever one looks.
        excess: of a share, each block's mean difference, shape (K,).
        begins_s: when each block begins, seconds since 1970, shape (K,); with `excess`.
        kish: how many blocks of equal weight the blocks are worth; None: they weigh the same.
    """

    estimate: float
    value: float
    reference_value: float
    pairs: float
    span_s: float
    influences: Floats
    floor: float
    counts: tuple[float, float, float] | None = None
    failed: float = 0.0
    value_range: tuple[float, float] | None = None
    excess: Floats | None = None
    begins_s: Ints | None = None
    kish: float | None = None

    @property
    def spread(self) -> Spread:
        """Blocks, effective blocks, standard error.

        Where few blocks hold most of the weight the estimate is theirs, and fits them: their own
        influence is hardly seen in the error. So no more blocks count than the weights are worth.
        """
        found = spread(self.influences, self.floor)
        worth = 1.0 if self.kish is None else min(self.kish / found.blocks, 1.0)
        return replace(found, effective=found.effective * worth)


def per_block(influence: Floats, weight: Floats, block: Ints) -> Floats:
    """Sums of a window's influences, as the mean of blocks of unequal weight is moved by them.

    psi_k = Σ_(w in k) influence_w / (Σ weight / K): blocks of unequal size count as they weigh.
    Source: linearisation of a ratio of means (delta method).

    Args:
        influence: a window's summed influence, shape (W,).
        weight: a window's weight, shape (W,).
        block: each window's block from 0, shape (W,).

    Returns:
        shape (K,).
    """
    blocks = int(block.max()) + 1
    sums = np.bincount(block, weights=influence, minlength=blocks)
    return np.asarray(sums / (weight.sum() / blocks), dtype=np.float64)


def kish_blocks(weight: Floats, block: Ints) -> float:
    """How many blocks of equal weight these are worth: (Σ_k W_k)²/Σ_k W_k². Source: Kish 1965.

    Args:
        weight: a window's weight, shape (W,).
        block: each window's block from 0, shape (W,).
    """
    sums = np.bincount(block, weights=weight)
    return float(sums.sum() ** 2 / (sums @ sums))
