"""Windows as arrays, made from pairs in memory: what queries/*.sql make in the store."""

from __future__ import annotations

import math

import numpy as np

from analysis.compare.sample import Sample, Windows
from analysis.compare.shares import share_difference
from analysis.compare.times import mean_log_ratio, quantile_log_ratio
from analysis.statistics.quantile import BIN, Histogram, log_quantile


def owner(pairs: int, a_block: int) -> np.ndarray:
    return np.arange(pairs) // a_block


def summed(values: np.ndarray, by: np.ndarray) -> np.ndarray:
    return np.bincount(by, weights=values, minlength=by.max() + 1)


def windows(by: np.ndarray, **sums: np.ndarray) -> Windows:
    ones = summed(np.ones(len(by)), by)
    columns = dict.fromkeys(Windows.__dataclass_fields__, 0 * ones)
    columns |= {"starts": np.arange(len(ones)), "n": ones, "sum_w": ones, "sum_w2": ones}
    return Windows(**{**columns, **{name: summed(value, by) for name, value in sums.items()}})


def mean_of(x: np.ndarray, y: np.ndarray, a_block: int) -> Sample:
    """The sample of tpot.mean for pairs x against y; infinite where failed."""
    by = owner(len(x), a_block)
    most = math.log(10)
    with np.errstate(invalid="ignore"):
        d = np.clip(np.log(x) - np.log(y), -most, most)
    finite = np.isfinite(x) & np.isfinite(y)
    logs = [np.log(np.where(finite, side, 1)) for side in (x, y)]
    made = windows(
        by,
        sum_wd=d,
        numerator=logs[0],
        denominator=1.0 * finite,
        reference_numerator=logs[1],
        reference_denominator=1.0 * finite,
    )
    return mean_log_ratio(made, by[::a_block], float(len(made)))


def histogram(x: np.ndarray) -> Histogram:
    finite = x[np.isfinite(x)]
    bins, counts = np.unique(np.floor(np.log(finite) / BIN).astype(int), return_counts=True)
    return Histogram(bins, counts.astype(float), float(len(x) - len(finite)))


def below(x: np.ndarray, log_q: float) -> np.ndarray:
    """One pair's weight below a quantile, its own bin in proportion."""
    bins = np.floor(np.log(np.where(np.isfinite(x), x, 1)) / BIN)
    return np.where(np.isfinite(x), np.clip(log_q / BIN - bins, 0, 1), 0.0)


def quantile_of(x: np.ndarray, y: np.ndarray, p: float, a_block: int) -> Sample:
    by = owner(len(x), a_block)
    totals = histogram(x), histogram(y)
    under = []
    for side, total in zip((x, y), totals, strict=True):
        log_q = log_quantile(total, p)
        known = math.isfinite(log_q)
        under.append(summed(below(side, log_q) if known else np.zeros(len(side)), by))
    made = windows(by)
    return quantile_log_ratio(made, by[::a_block], float(len(made)), p, totals, tuple(under))


def share_of(bad: np.ndarray, reference_bad: np.ndarray, a_block: int) -> Sample:
    by = owner(len(bad), a_block)
    made = windows(
        by,
        sum_wd=bad - reference_bad,
        numerator=bad,
        reference_numerator=reference_bad,
        sum_wd2=1.0 * (bad != reference_bad),
    )
    return share_difference(made, by[::a_block], float(len(made)))
