"""Samples from pairs in memory: what queries/*.sql and `evidence` make of pairs in the store.

x is this arm's value and y the reference's, shape (P,) in order of arrival: +inf for a failed
answer, NaN where undefined. A pair that is undefined on a side, or failed on both, is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.compare.sample import Floats, Ints, Sample, Windows
from analysis.compare.shares import share_difference
from analysis.compare.sums import ratio_of_sums
from analysis.compare.times import mean_log_ratio, quantile_log_ratio
from analysis.statistics.quantile import BIN, Histogram, log_quantile

LEAST_MS = 1e-6
"""A clock cannot have seen less than a nanosecond."""
MOST_LOG = float(np.log(10))


@dataclass(frozen=True, slots=True)
class Arranged:
    """Pairs in full blocks: each one's block (P,), its weight (P,), their span in seconds.

    And when each arrived, seconds since 1970, ascending, shape (P,); None: a second a block.
    """

    block: Ints
    weight: Floats
    span_s: float
    at_s: Floats | None = None

    @property
    def blocks(self) -> int:
        """K."""
        return int(self.block.max()) + 1

    def summed(self, values: Floats) -> Floats:
        """Sums by block, shape (K,)."""
        sums = np.bincount(self.block, weights=values, minlength=self.blocks)
        return sums.astype(np.float64, copy=False)

    def windows(self, **sums: Floats) -> Windows:
        """One window a block; what is not named is 0."""
        n = self.summed(np.ones(len(self.block)))
        columns: dict[str, Floats] = dict.fromkeys(Windows.__dataclass_fields__, 0 * n)
        columns |= {
            "n": n,
            "sum_w": self.summed(self.weight),
            "sum_w2": self.summed(self.weight**2),
        }
        columns |= {name: self.summed(values) for name, values in sums.items()}
        return Windows(**{**columns, "starts": self._begins_s()})  # type: ignore[arg-type]

    def _begins_s(self) -> Ints:
        if self.at_s is None:
            return self.numbers
        firsts = np.unique(self.block, return_index=True)[1]
        return np.floor(self.at_s[firsts]).astype(np.int64)

    @property
    def numbers(self) -> Ints:
        """The blocks themselves, 0 to K - 1."""
        return np.arange(self.blocks, dtype=np.int64)


def usable(x: Floats, y: Floats) -> npt.NDArray[np.bool_]:
    """Defined on both sides, and finished on one at least; shape (P,)."""
    return ~np.isnan(x) & ~np.isnan(y) & (np.isfinite(x) | np.isfinite(y))


def log_ratio(x: Floats, y: Floats) -> Floats:
    """Each pair's ln(x / y), clipped to ±ln 10, where a failed side lies too; shape (P,)."""
    with np.errstate(divide="ignore"):
        ratio: Floats = np.clip(np.log(x) - np.log(y), -MOST_LOG, MOST_LOG)
    return ratio


def mean_sample(of: Arranged, x: Floats, y: Floats) -> Sample:
    """The mean paired log-ratio of usable pairs."""
    finite = of.weight * (np.isfinite(x) & np.isfinite(y) & (x > 0) & (y > 0))
    logs = [np.log(np.where(finite > 0, side, 1.0)) for side in (x, y)]
    made = of.windows(
        sum_wd=of.weight * log_ratio(x, y),
        numerator=finite * logs[0],
        denominator=finite,
        reference_numerator=finite * logs[1],
        reference_denominator=finite,
    )
    return mean_log_ratio(made, of.numbers, of.span_s)


def quantile_sample(of: Arranged, x: Floats, y: Floats, p: float) -> Sample:
    """The paired log-ratio of quantiles of usable pairs."""
    totals = histogram(x, of.weight), histogram(y, of.weight)
    under = [
        of.summed(of.weight * _below(side, log_quantile(total, p)))
        for side, total in zip((x, y), totals, strict=True)
    ]
    made = of.windows()
    return quantile_log_ratio(made, of.numbers, of.span_s, p, totals, (under[0], under[1]))


def share_sample(of: Arranged, bad: Floats, reference_bad: Floats) -> Sample:
    """The difference of two shares; both sides 0 or 1."""
    made = of.windows(
        sum_wd=of.weight * (bad - reference_bad),
        sum_wd2=of.weight * (bad != reference_bad),
        numerator=of.weight * bad,
        reference_numerator=of.weight * reference_bad,
    )
    return share_difference(made, of.numbers, of.span_s)


def ratio_sample(of: Arranged, sides: tuple[Floats, Floats, Floats, Floats]) -> Sample:
    """The ratio of two ratios of sums: numerator, denominator, and the reference's two."""
    top, bottom, reference_top, reference_bottom = (of.weight * side for side in sides)
    made = of.windows(
        numerator=top,
        denominator=bottom,
        reference_numerator=reference_top,
        reference_denominator=reference_bottom,
    )
    return ratio_of_sums(made, of.numbers, of.span_s)


def histogram(x: Floats, weight: Floats) -> Histogram:
    """The weighted log-histogram; failed answers beyond every bin."""
    finite = np.isfinite(x)
    numbers = _bins(x[finite])
    if not len(numbers):
        return Histogram(np.zeros(0, np.int64), np.zeros(0), float(weight.sum()))
    first = int(numbers.min())
    counts = np.bincount(numbers - first, weights=weight[finite]).astype(np.float64, copy=False)
    kept = np.flatnonzero(counts)
    return Histogram(kept + first, counts[kept], float(weight[~finite].sum()))


def _bins(x: Floats) -> Ints:
    return np.floor(np.log(np.maximum(x, LEAST_MS)) / BIN).astype(np.int64)


def _below(x: Floats, log_q: float) -> Floats:
    """Each pair's share below a quantile, the quantile's own bin in proportion; shape (P,)."""
    under = np.zeros(len(x))
    if np.isfinite(log_q):
        finite = np.isfinite(x)
        under[finite] = np.clip(log_q / BIN - _bins(x[finite]), 0.0, 1.0)
    return under
