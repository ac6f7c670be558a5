"""The judge's bounds at every look of many runs at once: the product's formulas over arrays.

tests/calibration holds every one of them to `analysis.bounds` on single runs. A look is the end of
a block; R runs, K blocks, m pairs a block. Bounds have the shape (R, K), look by look.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betaincc, betaln, logsumexp

from analysis.compare.times import RESOLUTION
from analysis.statistics.attempts import attempt_share
from analysis.statistics.blocks import MAX_PHI, MIN_BLOCKS, MIN_EFFECTIVE
from analysis.statistics.boundary import tuned_rho2
from analysis.statistics.outages import LEVEL_SHARE, POINTS
from analysis.statistics.quantile import BIN

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
HALF_BINS = 900
"""Bins on each side of 1; what lies beyond is in the last one."""
MOST = np.log(10)
FRACTIONS = 0.9 * 2.0 ** -np.arange(9)


@dataclass(frozen=True)
class Looks:
    """What every look sees: estimate, standard error, effective blocks; each (R, K)."""

    estimate: Floats
    se: Floats
    effective: Floats

    def half(self, alpha: float, planned: int) -> Floats:
        """The half-width at a one-sided level; infinite while there are too few blocks."""
        blocks = np.arange(1, self.se.shape[1] + 1)
        enough = (blocks >= MIN_BLOCKS) & (self.effective >= MIN_EFFECTIVE)
        rho2 = tuned_rho2(2 * alpha, 1.0) / (planned * self.effective / blocks)
        return np.where(
            enough, self.se * _anytime_t(np.floor(self.effective), 2 * alpha, rho2), np.inf
        )

    def low(self, alpha: float, planned: int) -> Floats:
        """The lower bound."""
        return self.estimate - self.half(alpha, planned)

    def high(self, alpha: float, planned: int) -> Floats:
        """The upper bound."""
        return self.estimate + self.half(alpha, planned)


def _anytime_t(blocks: Floats, alpha: float, rho2: Floats) -> Floats:
    r = 1 / (1 + blocks * rho2)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_c = (2 / blocks) * (-np.log(alpha) - 0.5 * np.log(r))
        c = np.exp(log_c)
        kappa = np.sqrt((blocks - 1) * (c - 1) / (1 - c * r))
    return np.where((blocks < 2) | (log_c + np.log(r) >= 0), np.inf, kappa)


def by_look(
    influences: Callable[[int], tuple[Floats, Floats]],
    runs: int,
    blocks: int,
    floor: Callable[[int], Floats | float],
) -> Looks:
    """Looks from each look's estimate (R,) and influences (R, k), k = 1…K."""
    estimate, se, effective = (np.full((runs, blocks), np.nan) for _ in range(3))
    for k in range(1, blocks + 1):
        estimate[:, k - 1], psi = influences(k)
        se[:, k - 1], effective[:, k - 1] = _spread(psi, floor(k))
    return Looks(estimate, se, effective)


def _spread(psi: Floats, floor: Floats | float) -> tuple[Floats, Floats]:
    """Standard error and effective blocks of each run, as `analysis.statistics.blocks.spread`."""
    blocks = psi.shape[1]
    if blocks < 2:
        return np.full(len(psi), np.inf), np.full(len(psi), float(blocks))
    d = psi - psi.mean(axis=1, keepdims=True)
    d[np.abs(d).max(axis=1) <= 1e-12 * np.maximum(1.0, np.abs(psi).max(axis=1))] = 0.0
    power = (d * d).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        raw = (d[:, 1:] * d[:, :-1]).sum(axis=1) / power
    phi = np.where(power == 0, 1 / blocks, np.clip(raw + (1 + 3 * raw) / blocks, 0.0, MAX_PHI))
    effective = blocks * (1 - phi) / (1 + phi)
    variance = np.maximum(power / (blocks - 1), floor)
    return np.sqrt(variance / effective), effective


def mean_looks(here: Floats, there: Floats, m: int) -> Looks:
    """The mean paired log-ratio."""
    d = np.clip(here - there, -MOST, MOST)
    sums = d.reshape(len(d), -1, m).sum(axis=2)

    def influences(k: int) -> tuple[Floats, Floats]:
        estimate = sums[:, :k].sum(axis=1) / (k * m)
        return estimate, sums[:, :k] / m - estimate[:, None]

    return by_look(influences, len(d), sums.shape[1], lambda _: RESOLUTION**2)


def quantile_looks(here: Floats, there: Floats, m: int, p: float) -> Looks:
    """The paired log-ratio of quantiles, from log-histograms as the store keeps them."""
    sides = [_Side.of(here, m), _Side.of(there, m)]

    def influences(k: int) -> tuple[Floats, Floats]:
        logs, psi = [], np.zeros((len(here), k))
        for side, sign in zip(sides, (-1.0, 1.0), strict=True):
            log_q, slope = side.quantile(k, p)
            logs.append(log_q)
            psi += sign * slope[:, None] * (side.below(k, log_q) / m - p)
        return logs[0] - logs[1], psi

    return by_look(influences, len(here), here.shape[1] // m, lambda _: BIN**2)


@dataclass(frozen=True)
class _Side:
    """One side's cumulative histograms: within each block (R, K, B), and over blocks (R, K, B)."""

    within: npt.NDArray[np.uint16]
    over: npt.NDArray[np.uint16]
    m: int

    @classmethod
    def of(cls, logs: Floats, m: int) -> _Side:
        runs, pairs = logs.shape
        numbers = np.clip(np.floor(logs / BIN).astype(np.int32) + HALF_BINS, 0, 2 * HALF_BINS - 1)
        block = np.arange(runs * pairs, dtype=np.int64) // m
        flat = np.bincount(
            block * (2 * HALF_BINS) + numbers.ravel(), minlength=runs * pairs // m * 2 * HALF_BINS
        )
        counts = flat.reshape(runs, pairs // m, 2 * HALF_BINS).astype(np.uint16)
        within = counts.cumsum(axis=2, dtype=np.uint16)
        return cls(within, within.cumsum(axis=1, dtype=np.uint16), m)

    def _log_quantile(self, k: int, p: float) -> Floats:
        total = self.over[:, k - 1]
        target = p * k * self.m
        at = np.minimum((total < target * (1 - 1e-12)).sum(axis=1), total.shape[1] - 1)
        rows = np.arange(len(total))
        before = np.where(at > 0, total[rows, at - 1], 0).astype(np.float64)
        within = (target - before) / (total[rows, at] - before)
        return (at - HALF_BINS + np.clip(within, 0.0, 1.0)) * BIN

    def quantile(self, k: int, p: float) -> tuple[Floats, Floats]:
        """ln Q(p) and the sparsity of the first k blocks, each (R,)."""
        h = min(0.5 * min(p, 1 - p), float((k * self.m) ** (-1 / 3)))
        slope = (self._log_quantile(k, p + h) - self._log_quantile(k, p - h)) / (2 * h)
        return self._log_quantile(k, p), slope

    def below(self, k: int, log_q: Floats) -> Floats:
        """Each block's weight below a quantile, its own bin in proportion; (R, k)."""
        edge = log_q / BIN + HALF_BINS
        at = np.clip(np.floor(edge).astype(np.int64), 0, 2 * HALF_BINS - 1)
        rows = np.arange(len(edge))
        upto = self.within[rows, :k, at].astype(np.float64)
        before = np.where(at[:, None] > 0, self.within[rows, :k, at - 1], 0).astype(np.float64)
        return before + (upto - before) * (edge - at)[:, None]


@dataclass(frozen=True)
class ShareLooks:
    """A difference of shares: the blocks' looks, and the counts so far, (R, K) each."""

    blocks: Looks
    plus: Floats
    minus: Floats
    pairs: Floats
    excess: Floats
    """Each block's own difference."""

    def above(self, edge: float, alpha: float, planned: int) -> Mask:
        """Whether the lower bound lies above an edge: blocks and betting agree."""
        return (self.blocks.low(alpha, planned) > edge) & self._bets(edge, alpha, 1)

    def fails(self, edge: float, alpha: float, planned: int) -> Mask:
        """As failures are rejected: by their mean, or by an outage that does not end."""
        by_mean = self.above(edge, alpha * (1 - LEVEL_SHARE), planned)
        return by_mean | self.outage(edge, alpha * LEVEL_SHARE)

    def outage(self, edge: float, alpha: float) -> Mask:
        """Whether any outage until now is evidence; a block is a half-life or longer."""
        down = self.excess > edge + POINTS
        lasted, number, ever = (np.zeros(len(down)) for _ in range(3))
        found = np.zeros(down.shape, bool)
        for k in range(down.shape[1]):
            number += down[:, k] & (lasted == 0)
            lasted = np.where(down[:, k], lasted + 1, 0)
            weight = attempt_share(1) / np.maximum(number, 1) ** 2
            ever = np.maximum(ever, np.where(lasted > 0, weight * 2.0 ** (lasted - 1), 0))
            found[:, k] = np.log(np.maximum(ever, 1e-300)) >= -np.log(alpha)
        return found

    def within(self, edge: float, alpha: float, planned: int) -> Mask:
        """Whether the upper bound lies at or below an edge."""
        return (self.blocks.high(alpha, planned) <= edge) & self._bets(edge, alpha, -1)

    def _bets(self, edge: float, alpha: float, sign: int) -> Mask:
        bets = (FRACTIONS / (1 + sign * edge))[:, None, None]
        zero = self.pairs - self.plus - self.minus
        logs = (
            self.plus * np.log1p(bets * sign * (1 - edge))
            + self.minus * np.log1p(-bets * sign * (1 + edge))
            + zero * np.log1p(-bets * sign * edge)
        )
        return np.asarray(logsumexp(logs, axis=0) - np.log(len(bets)) >= -np.log(alpha))


def share_looks(bad: Mask, reference_bad: Mask, m: int) -> ShareLooks:
    """The difference of two shares."""
    runs, pairs = bad.shape
    plus, minus = (
        side.reshape(runs, -1, m).sum(axis=2).astype(np.float64)
        for side in (bad & ~reference_bad, ~bad & reference_bad)
    )
    sums, differ = plus - minus, (plus + minus).cumsum(axis=1)

    def influences(k: int) -> tuple[Floats, Floats]:
        estimate = sums[:, :k].sum(axis=1) / (k * m)
        return estimate, sums[:, :k] / m - estimate[:, None]

    def floor(k: int) -> Floats:
        smoothed = (differ[:, k - 1] + 2) / (k * m + 4)
        return smoothed * (1 - smoothed) / m

    looks = by_look(influences, runs, pairs // m, floor)
    seen = np.broadcast_to(np.arange(1, pairs // m + 1) * float(m), plus.shape)
    return ShareLooks(looks, plus.cumsum(axis=1), minus.cumsum(axis=1), seen, sums / m)


def sign_test_rejects(here: Floats, there: Floats, alpha: float) -> Mask:
    """The negative control: a sequential test that takes requests for independent; ever, (R,).

    One-sided sign e-process on 1{here > there}, Beta(½, ½) mixture over P > ½; exact for
    independent pairs, looked at after every pair.
    """
    wins = (here > there).cumsum(axis=1)
    n = np.arange(1, here.shape[1] + 1)
    return np.asarray((sign_log_evidence(wins, n) >= -np.log(alpha)).any(axis=1))


def sign_log_evidence(wins: npt.NDArray[np.int64], n: npt.NDArray[np.int64]) -> Floats:
    """The log of the e-value of `wins` of n against P <= ½.

    e = B(½ + s, ½ + n - s)/B(½, ½)·2ⁿ·I(P > ½; ½ + s, ½ + n - s)/½.
    """
    a, b = 0.5 + wins, 0.5 + n - wins
    with np.errstate(divide="ignore"):
        upper = np.log(betaincc(a, b, 0.5)) - np.log(0.5)
    return np.asarray(betaln(a, b) - betaln(0.5, 0.5) + n * np.log(2) + upper)
