"""Where an arm's own value lies, and what two options do to each other: the published vectors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.statistics.bernstein import bernstein_range
from analysis.statistics.factorial import factorial
from analysis.statistics.ranks import quantile_ranks

from .arrays import mean_of, quantile_of, share_of
from .test_analysis_vectors import vector


def test_ranks_of_a_quantile():
    """V07: the published ranks, to the last one; few observations leave an end open."""
    given_, expected = vector("V07")
    for case, ranks in expected.items():
        n, p = (float(part.split("=")[1]) for part in case.split(","))
        assert quantile_ranks(int(n), p, given_["alpha"], given_["n_opt"]) == tuple(ranks)
    assert quantile_ranks(1, 0.5, 0.05) == (0, 2)
    assert quantile_ranks(20, 0.95, 0.05)[1] == 21


def test_ranks_hold_at_every_look():
    """Exponential values, looked at after every twenty: the true p95 leaves in few of 200 runs."""
    rng, left = np.random.default_rng(3), 0
    truth = -math.log(0.05)
    ranks = {n: quantile_ranks(n, 0.95, 0.05) for n in range(20, 2001, 20)}
    for _ in range(200):
        values = rng.exponential(size=2000)
        for n, (low, high) in ranks.items():
            seen = np.sort(values[:n])
            above = low > 0 and seen[low - 1] > truth
            if above or (high <= n and seen[high - 1] < truth):
                left += 1
                break
    assert left / 200 <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 200)


def test_the_empirical_bernstein_range():
    """V08: the published ends; nothing seen is the whole of [0, 1]."""
    given_, expected = vector("V08")
    values = np.tile(np.array(given_["x_pattern"], float), given_["repeats"])
    low, high = bernstein_range(values, given_["alpha"])
    assert (low, high) == pytest.approx((expected["lo"], expected["hi"]), rel=1e-6)
    assert bernstein_range(values[:0], 0.05) == (0, 1)
    assert bernstein_range(np.zeros(300), 0.05)[1] < 0.05


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=200))
def test_the_range_stays_within_what_can_be(values):
    """Ends in order and within [0, 1], whatever the values are."""
    low, high = bernstein_range(np.array(values), 0.05)
    assert 0 <= low <= high <= 1


def test_two_options():
    """V17: what each does alone, on average, beyond their product, and together."""
    given_, expected = vector("V17")
    logs = {cell: math.log(ratio) for cell, ratio in given_["ratios"].items()}
    found = factorial(logs["00"], logs["10"], logs["01"], logs["11"])
    for name in ("simple_A", "simple_B", "main_A", "main_B", "collective"):
        assert getattr(found, name.lower()) == pytest.approx(expected[name], rel=1e-6)
    assert found.interaction == pytest.approx(expected["interaction_AB"], rel=1e-6)
    assert math.exp(found.interaction) == pytest.approx(expected["interaction_ratio"])
    alone = math.exp(found.simple_a + found.simple_b)
    assert alone == pytest.approx(expected["additive_prediction_ratio"])
    total = found.simple_a + found.simple_b + found.interaction
    assert total == pytest.approx(expected["sum_check"], rel=1e-6)


def test_samples_say_where_the_candidate_itself_lies():
    """A quantile's range by ranks holds it in its unit; a share's by its blocks; a mean has none."""
    rng = np.random.default_rng(4)
    x, y = 20 * np.exp(rng.normal(0, 0.3, (2, 4000)))
    p95 = quantile_of(x, y, 0.95, 40)
    low, high = p95.value_range
    assert low < p95.value < high < low * 1.25
    few = quantile_of(x[:40], y[:40], 0.95, 40)
    assert few.value_range[1] == math.inf
    bad = (rng.random(4000) < 0.1) * 1.0
    share = share_of(bad, 0 * bad, 40)
    low, high = share.value_range
    assert 0.02 < low < share.value < high < 0.2
    assert mean_of(x, y, 40).value_range is None
