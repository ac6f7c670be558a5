"""The formulas hold against published vectors, closed forms and their own definitions."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.statistics.betting import bound, log_evidence
from analysis.statistics.blocks import block_of, half_width, phi, spread
from analysis.statistics.boundary import anytime_t, normal_mixture, tuned_rho2
from analysis.statistics.quantile import BIN, Histogram, log_quantile, sparsity

VECTORS = {
    vector["id"]: vector
    for vector in json.loads(Path(__file__).with_name("statistics.json").read_text())["vectors"]
}


def test_normal_mixture_against_the_vectors():
    """kappa and its tuned rho², two-sided, one-sided at twice the level, and mis-tuned."""
    expected = VECTORS["V01_asympcs_two_sided"]["expected"]
    rho2 = tuned_rho2(0.05, 400)
    assert rho2 == pytest.approx(expected["rho2"], rel=1e-6)
    kappa = normal_mixture(400, 0.05, rho2)
    assert kappa == pytest.approx(expected["kappa"], rel=1e-6)
    assert 0.02 - kappa * 0.5 / 20 == pytest.approx(expected["lo"], rel=1e-6)

    one_sided = VECTORS["V02_asympcs_one_sided"]
    assert normal_mixture(1000, 0.1, one_sided["inputs"]["rho2"]) == pytest.approx(
        one_sided["expected"]["two_sided_2alpha"], rel=1e-6
    )
    named = VECTORS["V26_rho_parameterisation"]["expected"]
    at = math.sqrt(2500)
    assert normal_mixture(2500, 0.05, 0.01) * at == pytest.approx(named["wsr"], rel=1e-6)
    assert normal_mixture(2500, 0.05, 1.0) * at == pytest.approx(named["mistuned_rho1"], rel=1e-6)


@pytest.mark.parametrize(
    ("blocks", "kappa"), [(10, math.inf), (20, 3.70), (30, 3.19), (60, 2.88), (100, 2.81)]
)
def test_anytime_t(blocks, kappa):
    """The multipliers of the published table; infinite while there are too few blocks."""
    assert anytime_t(blocks, 0.10, tuned_rho2(0.10, 100)) == pytest.approx(kappa, abs=0.006)


def test_anytime_t_nears_the_normal_mixture():
    """With many blocks the variance is as good as known."""
    rho2 = tuned_rho2(0.1, 1e5)
    assert anytime_t(10**5, 0.1, rho2) == pytest.approx(normal_mixture(1e5, 0.1, rho2), rel=1e-3)


def test_zero_events_pass_after_about_a_thousand_pairs():
    """The betting test alone: +0.5 pp after 1,120 pairs without an event, +0.1 pp after 5,620."""
    goal = math.log(20)
    assert log_evidence(0, 0, 1119, 0.005, -1) < goal <= log_evidence(0, 0, 1120, 0.005, -1)
    assert log_evidence(0, 0, 5610, 0.001, -1) < goal <= log_evidence(0, 0, 5620, 0.001, -1)


def test_betting_bounds():
    """Bounds hold the mean between them, meet the evidence at their level, and are open without data."""
    low, high = bound(30, 12, 4958, 0.05, 1), bound(30, 12, 4958, 0.05, -1)
    assert low < 18 / 5000 < high
    assert log_evidence(30, 12, 4958, low, 1) == pytest.approx(math.log(20), abs=1e-3)
    assert (bound(0, 0, 0, 0.05, 1), bound(0, 0, 0, 0.05, -1)) == (-1, 1)
    assert bound(500, 0, 0, 0.05, 1) > 0.95


def test_betting_holds_its_level_under_peeking():
    """Looked at after every pair, at most alpha of null runs ever show evidence (exact, simulated)."""
    rng = np.random.default_rng(7)
    runs, pairs, margin = 150, 600, 0.02
    z = rng.choice([1, -1, 0], size=(runs, pairs), p=[0.03, 0.01, 0.96])
    plus, minus = (z == 1).cumsum(axis=1), (z == -1).cumsum(axis=1)
    ever = 0
    for run in range(runs):
        looks = range(19, pairs, 20)
        ever += any(
            log_evidence(
                plus[run, i], minus[run, i], i + 1 - plus[run, i] - minus[run, i], margin, 1
            )
            > math.log(20)
            for i in looks
        )
    assert ever / runs <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / runs)


def test_blocks_are_slices_merged_until_full():
    """Windows of a slice stay together, slices merge to the least pairs, the unfilled end is open."""
    starts = np.array([0, 1, 2, 3, 4, 5, 8, 9])
    pairs = np.array([5.0, 5, 1, 1, 9, 9, 20, 1])
    assert block_of(starts, pairs, 2, 10).tolist() == [0, 0, 1, 1, 1, 1, 2, 2]
    assert block_of(starts, pairs, 1, 10).tolist() == [0, 0, 1, 1, 1, 2, 2, -1]
    assert block_of(starts[:2], pairs[:2], 60, 50).tolist() == [-1, -1]


def test_phi_of_an_autoregression():
    """A series with phi = 0.6 is recognised; equal blocks give 1/K; alternation is no gain."""
    rng = np.random.default_rng(3)
    series = np.zeros(2000)
    for i in range(1, 2000):
        series[i] = 0.6 * series[i - 1] + rng.normal()
    assert phi(series - series.mean()) == pytest.approx(0.6, abs=0.05)
    assert phi(np.zeros(20)) == 1 / 20
    assert phi(np.array([1.0, -1] * 10)) == 0


def test_equal_blocks_are_neither_certain_nor_unknown():
    """The floor gives constant blocks a finite interval, and rounding noise is not taken for one."""
    of = spread(np.full(20, 0.1 + 1e-17), floor=0.01)
    assert of.effective == pytest.approx(20 * 19 / 21)
    assert 0 < half_width(of, 0.05, 100) < math.inf
    assert math.isinf(half_width(spread(np.arange(8.0), 0.01), 0.05, 100))


def histogram(x: np.ndarray, infinite: float = 0.0) -> Histogram:
    bins, counts = np.unique(np.floor(np.log(x) / BIN).astype(int), return_counts=True)
    return Histogram(bins, counts.astype(float), infinite)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(0.01, 1e6), min_size=3, max_size=60),
    st.sampled_from([0.5, 0.9, 0.95, 0.99]),
)
def test_a_histogram_keeps_quantiles_within_a_bin(values, p):
    """Half a percent at most is lost against the exact inverse of the distribution function."""
    exact = math.log(float(np.quantile(values, p, method="inverted_cdf")))
    assert abs(log_quantile(histogram(np.array(values)), p) - exact) <= BIN * (1 + 1e-6)


def test_failed_answers_stand_last():
    """A quantile is infinite exactly when the failed share reaches it; the sparsity stays finite."""
    x = np.exp(np.random.default_rng(1).normal(0, 0.5, 1000))
    assert math.isfinite(log_quantile(histogram(x, 50), 0.95))
    assert math.isinf(log_quantile(histogram(x, 60), 0.95))
    assert math.isfinite(sparsity(histogram(x, 50), 0.95, 1050))


def test_sparsity_of_a_log_normal():
    """d ln Q/dp of exp(N(0, 0.5²)) at the median is 0.5/phi(0)."""
    x = np.exp(np.random.default_rng(2).normal(0, 0.5, 200_000))
    assert sparsity(histogram(x), 0.5, len(x)) == pytest.approx(
        0.5 * math.sqrt(2 * math.pi), rel=0.05
    )
