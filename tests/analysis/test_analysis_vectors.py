"""The published vectors, and scipy and statsmodels as independent words on the same quantities."""

from __future__ import annotations

import difflib
import json
import math
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq
from scipy.special import betainc, betaln

from analysis.statistics.betting import bound, log_evidence
from analysis.statistics.blocks import spread
from analysis.statistics.boundary import (
    anytime_t,
    normal_mixture,
    t_log_evidence,
    tuned_rho2,
)
from analysis.statistics.multiplicity import e_bh
from analysis.statistics.ratio_mismatch import MISMATCH, log_mismatch
from bench.calibration.peeking import sign_log_evidence

with warnings.catch_warnings():  # what its import says of other packages is not ours
    warnings.simplefilter("ignore")
    from statsmodels.stats.contingency_tables import mcnemar
    from statsmodels.stats.multitest import multipletests
    from statsmodels.stats.sandwich_covariance import S_hac_simple

VECTORS = {
    vector["id"]: vector
    for vector in json.loads(Path(__file__).with_name("statistics.json").read_text())["vectors"]
}


def vector(name: str) -> tuple[dict, dict]:
    found = next(v for key, v in VECTORS.items() if key.startswith(name))
    return found["inputs"], found["expected"]


def test_one_sided_mixtures():
    """V02: ours, two-sided at twice the level, lies within 0.1 % of the exact one-sided boundary."""
    given, expected = vector("V02")
    w = given["t"] * given["rho2"] + 1

    def short(y: float) -> float:
        return math.log(2 / math.sqrt(w)) + y * y / 2 + stats.norm.logcdf(y) - math.log(1 / 0.05)

    exact = brentq(short, 0, 10) * math.sqrt(w / (w - 1))
    assert exact == pytest.approx(expected["exact"], rel=1e-6)
    ours = normal_mixture(given["t"], 2 * given["alpha"], given["rho2"])
    assert ours == pytest.approx(expected["two_sided_2alpha"], rel=1e-6)
    assert ours == pytest.approx(exact, rel=1e-3)


def test_the_sign_e_process():
    """V04, and the exact rate of a false alarm is V28's (tests/calibration)."""
    given, expected = vector("V04")
    found = float(sign_log_evidence(np.array(given["s"]), np.array(given["n"])))
    assert found == pytest.approx(expected["log_e_one_sided"], rel=1e-6)
    assert math.exp(-found) == pytest.approx(expected["anytime_p"], rel=1e-6)


def test_mcnemar():
    """V05: the exact test by statsmodels; the betting bounds hold its difference, and are wider."""
    given, expected = vector("V05")
    table = [[given["both"], given["cand_only"]], [given["base_only"], given["neither"]]]
    assert mcnemar(table, exact=True).pvalue == pytest.approx(expected["exact_p"], rel=1e-6)
    plus, minus = given["cand_only"], given["base_only"]
    half = stats.binom.pmf(minus, plus + minus, 0.5)
    assert expected["exact_p"] - half == pytest.approx(expected["midp"], rel=1e-6)
    e = float(sign_log_evidence(np.array(plus), np.array(plus + minus)))
    assert e == pytest.approx(expected["log_e_cand_worse"], rel=1e-6)
    zero = given["both"] + given["neither"]
    low, high = (bound(plus, minus, zero, 0.025, sign) for sign in (1, -1))
    fixed_low, fixed_high = expected["tango95"]
    assert low < fixed_low < expected["diff"] < fixed_high < high


def test_a_rate_s_confidence_sequence_and_ours():
    """V06: the Beta mixture's interval of 37 in 1000; betting on the same counts agrees within a third."""
    given, expected = vector("V06")
    s, n = given["s"], given["n"]
    mixture = betaln(0.5 + s, 0.5 + n - s) - betaln(0.5, 0.5)

    def short(p: float) -> float:
        return mixture - s * math.log(p) - (n - s) * math.log1p(-p) - math.log(20)

    low, high = brentq(short, 1e-6, s / n), brentq(short, s / n, 0.5)
    assert (low, high) == pytest.approx((expected["lo"], expected["hi"]), rel=1e-5)
    assert bound(s, 0, n - s, 0.025, 1) == pytest.approx(low, rel=0.34)
    assert bound(s, 0, n - s, 0.025, -1) == pytest.approx(high, rel=0.34)


def test_multiplicity():
    """V12: Holm and Benjamini-Hochberg by statsmodels, e-BH by ours."""
    given, expected = vector("V12")
    for method, name in (("holm", "holm"), ("fdr_bh", "bh")):
        rejected = multipletests(given["p"], given["alpha"], method)[0].tolist()
        assert rejected == expected[name]
    found = e_bh([math.log(e) for e in given["e"]], given["alpha"])
    assert found == expected["ebh"]
    assert np.mean(given["e"]) == pytest.approx(expected["mean_e"])


def test_e_bh_on_calibrated_p_values_never_finds_more():
    """What e-BH finds after V29's calibration, Benjamini-Hochberg by statsmodels finds too."""
    given, expected = vector("V29")
    assert 0.5 * given["p"] ** -0.5 == pytest.approx(expected["kappa_half"])
    p, rng = given["p"], np.random.default_rng(4)
    mixture = (1 - p + p * math.log(p)) / (p * math.log(p) ** 2)
    assert mixture == pytest.approx(expected["mixture"])
    for _ in range(50):
        drawn = rng.random(20) ** rng.integers(1, 12, 20)
        ours = np.array(e_bh([math.log(0.5 * one**-0.5) for one in drawn], 0.1))
        theirs = multipletests(drawn, 0.1, "fdr_bh")[0]
        assert not (ours & ~theirs).any()


def test_the_long_run_variance():
    """Against statsmodels' Newey-West on block means of AR(1) requests (V16's shape): within a fifth."""
    _, expected = vector("V16")
    assert expected["se_block"] == pytest.approx(expected["se_nw"], rel=0.07)
    rng, ours, theirs = np.random.default_rng(2024), [], []
    for _ in range(60):
        x = np.zeros(4000)
        noise = rng.normal(size=4000)
        for i in range(1, 4000):
            x[i] = 0.8 * x[i - 1] + noise[i]
        ours.append(spread(x.reshape(-1, 20).mean(axis=1), 0.0).se)
        hac = S_hac_simple((x - x.mean())[:, None], nlags=40)[0, 0]
        theirs.append(math.sqrt(hac) / len(x))
    assert np.mean(ours) == pytest.approx(np.mean(theirs), rel=0.2)
    assert np.mean(ours) == pytest.approx(math.sqrt(25 / 4000), rel=0.1)  # 1/(1 - 0.8)² / n


def test_the_t_boundary_nears_scipy_s_t():
    """At one look a fixed t interval is the narrower one; the e-value meets the multiplier exactly."""
    for blocks in (20, 60, 200):
        rho2 = tuned_rho2(0.1, 100)
        kappa = anytime_t(blocks, 0.1, rho2)
        assert kappa > stats.t.ppf(0.95, blocks - 1)
        assert t_log_evidence(kappa, blocks, rho2) == pytest.approx(math.log(1 / 0.1), rel=1e-9)
        assert t_log_evidence(-kappa, blocks, rho2) < 0


def test_the_cost_of_validity():
    """V30: the multiplier at its best against the normal quantile."""
    _, expected = vector("V30")
    kappa = normal_mixture(1000, 0.1, tuned_rho2(0.1, 1000))
    assert stats.norm.ppf(0.95) == pytest.approx(expected["z"])
    assert kappa == pytest.approx(expected["kappa_at_opt"], rel=1e-6)


def test_the_sample_ratio_e_value():
    """Against its own definition by the incomplete beta, and held to 1,000:1 in 400 honest taps."""
    rng, odds = np.random.default_rng(3), []
    for _ in range(400):
        total = 4000
        received = int(rng.binomial(total, 0.5))
        odds.append(log_mismatch(total - received, received, 1.0))
    assert max(odds) < math.log(MISMATCH)
    assert np.mean(np.exp(odds)) < 1
    s, n = 900, 1900
    density = betaln(0.5 + s, 0.5 + n - s) - betaln(0.5, 0.5) + n * math.log(2)
    assert log_mismatch(n - s, s, 1.0) == pytest.approx(density)
    assert betainc(0.5 + s, 0.5 + n - s, 0.5) > 0.98  # few came: the share lies below a half


def test_the_betting_evidence_is_an_e_value():
    """Its mean over pairs at the edge is 1: on both sides, for common and for rare events."""
    for margin in (0.005, 0.1):
        for sign in (1, -1):
            for rate in (margin, 0.3):
                minus = rate - margin
                ones = [(1, 0, 0, rate), (0, 1, 0, minus), (0, 0, 1, 1 - rate - minus)]
                mean = sum(p * math.exp(log_evidence(*z, margin, sign)) for *z, p in ones)
                assert mean == pytest.approx(1, abs=1e-12)


def test_distances_by_scipy():
    """V18, V19, V21: what the fixed companions of output drift are, by the standard library and scipy."""
    given, expected = vector("V18")
    ratio = difflib.SequenceMatcher(a=given["a"], b=given["b"], autojunk=False).ratio()
    assert ratio == pytest.approx(expected["difflib"])
    given, expected = vector("V19")
    assert stats.ks_2samp(given["la"], given["lb"]).pvalue == pytest.approx(
        expected["ks_p"], rel=1e-6
    )
    w1 = stats.wasserstein_distance(np.log(given["la"]), np.log(given["lb"]))
    assert w1 == pytest.approx(expected["w1_log"], rel=1e-6)
    null = (2 / 1000) * stats.chi2.ppf(0.95, 9)
    assert null == pytest.approx(expected["psi_threshold_95"], rel=1e-6)
    given, expected = vector("V21")
    wins, losses = given["W"], given["L"]
    assert stats.binomtest(wins, wins + losses).pvalue == pytest.approx(
        expected["sign_test_p"], rel=1e-6
    )
