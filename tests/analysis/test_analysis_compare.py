"""Estimates equal their definitions on plain arrays, and influences belong to them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from analysis.compare.arrays import Arranged, share_sample
from analysis.compare.sample import Sample, per_block
from analysis.compare.sums import ratio_of_sums
from analysis.statistics.blocks import half_width

from .arrays import mean_of, quantile_of, share_of, windows

RNG = np.random.default_rng(5)
Y = 20 * np.exp(RNG.normal(0, 0.3, 1200))
X = Y * np.exp(RNG.normal(math.log(1.1), 0.1, 1200))


def test_mean_log_ratio():
    """The mean of ln(x/y), geometric means on both sides, and influences that add up to nothing."""
    sample = mean_of(X, Y, 30)
    assert sample.estimate == pytest.approx(np.log(X / Y).mean())
    assert sample.value == pytest.approx(math.exp(np.log(X).mean()))
    assert sample.reference_value == pytest.approx(math.exp(np.log(Y).mean()))
    assert sample.influences.sum() == pytest.approx(0, abs=1e-9)
    blocks = np.log(X / Y).reshape(-1, 30).mean(axis=1)
    assert sample.influences == pytest.approx(blocks - blocks.mean())


def test_a_failed_answer_counts_as_ten_times_slower():
    """Clipped, never left out; the values shown are of pairs that finished."""
    failed = X.copy()
    failed[:12] = np.inf
    d = np.log(X / Y)
    d[:12] = math.log(10)
    sample = mean_of(failed, Y, 30)
    assert sample.estimate == pytest.approx(d.mean())
    assert sample.value == pytest.approx(math.exp(np.log(X[12:]).mean()))


@pytest.mark.parametrize("p", [0.5, 0.95])
def test_quantile_log_ratio(p):
    """The ratio of both sides' quantiles within a bin; its error as a bootstrap of blocks has it."""
    sample = quantile_of(X, Y, p, 30)
    exact = math.log(np.quantile(X, p) / np.quantile(Y, p))
    assert sample.estimate == pytest.approx(exact, abs=0.012)
    assert sample.influences.sum() == pytest.approx(0, abs=1e-6)
    rng = np.random.default_rng(1)
    blocks = np.arange(1200).reshape(-1, 30)
    draws = []
    for _ in range(400):
        chosen = blocks[rng.integers(0, 40, 40)].ravel()
        draws.append(math.log(np.quantile(X[chosen], p) / np.quantile(Y[chosen], p)))
    plain = sample.influences.std(ddof=1) / math.sqrt(len(sample.influences))
    assert plain == pytest.approx(float(np.std(draws)), rel=0.35)


def test_a_quantile_beyond_the_failed_share_is_unknown():
    """Six failed answers of a hundred: p50 is known, p95 is infinite and gives no interval."""
    failed = X.copy()
    failed[::16] = np.inf
    assert math.isfinite(quantile_of(failed, Y, 0.5, 30).estimate)
    assert math.isinf(quantile_of(failed, Y, 0.95, 30).estimate)
    assert math.isnan(quantile_of(Y, failed, 0.95, 30).estimate)


def test_ratio_of_sums():
    """Tokens by seconds on both sides, and the delta method's influences."""
    by = np.arange(400) // 20
    tokens, seconds = RNG.integers(5, 50, 400) * 1.0, RNG.uniform(0.5, 1.5, 400)
    slower = seconds * 1.2
    made = windows(
        by,
        numerator=tokens,
        denominator=slower,
        reference_numerator=tokens,
        reference_denominator=seconds,
    )
    sample = ratio_of_sums(made, by[::20], 20.0)
    assert sample.estimate == pytest.approx(-math.log(1.2))
    assert np.abs(sample.influences).max() == pytest.approx(0, abs=1e-9)
    nothing = ratio_of_sums(windows(by), by[::20], 20.0)
    assert math.isnan(nothing.estimate)


def test_share_difference_and_its_floor():
    """(30 - 12)/1200; with nothing bad at all the floor is p̃(1-p̃)/m and the interval finite."""
    bad, reference = np.zeros(1200), np.zeros(1200)
    bad[:30] = 1
    reference[30:42] = 1
    sample = share_of(bad, reference, 30)
    assert sample.estimate == pytest.approx(18 / 1200)
    assert sample.counts == (30, 12, 1158)
    clean = share_of(np.zeros(1200), np.zeros(1200), 30)
    smoothed = 2 / 1204
    assert clean.floor == pytest.approx(smoothed * (1 - smoothed) / 30)
    assert 0 < half_width(clean.spread, 0.05, 100) < 0.01


def test_blocks_count_as_they_weigh():
    """A block of twice the weight moves the mean twice as much."""
    influence = per_block(np.array([1.0, 1, 2]), np.array([1.0, 1, 2]), np.array([0, 1, 2]))
    assert influence == pytest.approx([0.75, 0.75, 1.5])


def weighed(weight: np.ndarray) -> Sample:
    """Failures of 1,200 pairs in blocks of 20, every fortieth of this arm alone."""
    bad = 1.0 * (np.arange(1200) % 40 == 0)
    return share_sample(Arranged(np.arange(1200) // 20, weight, 60.0), bad, 0 * bad)


def test_weights_of_pairs_are_worth_what_kish_says():
    """All alike: their size is nothing. A few that weigh more: fewer pairs, a wider floor and bets."""
    plain, fourfold = weighed(np.ones(1200)), weighed(np.full(1200, 4.0))
    assert fourfold.counts == pytest.approx(plain.counts) == (30, 0, 1170)
    assert fourfold.floor == pytest.approx(plain.floor)
    assert fourfold.influences == pytest.approx(plain.influences)
    uneven = np.where(np.arange(1200) % 10 == 5, 30.0, 1.0)
    found = weighed(uneven)
    kish = uneven.sum() ** 2 / (uneven**2).sum()
    assert sum(found.counts) == pytest.approx(kish)
    assert kish < 210
    assert found.floor > 3 * plain.floor


def test_a_mean_of_times_is_no_figure_where_many_failed():
    """Up to 5 % of pairs that failed on one side count as tenfold, and are told; beyond, nothing is."""
    rng = np.random.default_rng(3)
    y = 20 * np.exp(rng.normal(0, 0.1, 1000))
    for failed, known in ((40, True), (60, False)):
        x = y.copy()
        x[:failed] = np.inf
        sample = mean_of(x, y, 20)
        assert math.isfinite(sample.estimate) == known
        assert math.isfinite(sample.value) == known
        assert sample.failed == pytest.approx(failed / 1000)


@pytest.mark.parametrize("odd", [math.inf, math.nan, 0.0])
@pytest.mark.parametrize("place", range(4))
def test_a_ratio_of_what_is_no_number_is_unknown(odd, place):
    """One infinite, undefined or empty sum on either side: no estimate, no crash."""
    names = ("numerator", "denominator", "reference_numerator", "reference_denominator")
    values = {name: np.ones(40) for name in names}
    values[names[place]] = np.full(40, odd)
    sample = ratio_of_sums(windows(np.arange(40) // 4, **values), np.arange(10), 10.0)
    assert math.isnan(sample.estimate)
    assert not sample.influences.any()
