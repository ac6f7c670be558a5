"""The calibration in small: error levels, power, pairs needed, and a harness that can see a failure."""

from __future__ import annotations

import math

import numpy as np
import pytest

from analysis.statistics.boundary import normal_mixture, tuned_rho2
from analysis.statistics.outages import LEVEL_SHARE, blocks_until
from bench.calibration.__main__ import missed
from bench.calibration.page import page
from bench.calibration.peeking import sign_log_evidence
from bench.calibration.runs import (
    FAILURES,
    Errors,
    Family,
    Outages,
    Size,
    errors,
    negative_control,
    outages,
    pairs_needed,
    power,
)
from bench.calibration.traffic import BURSTY, KINDS, Kind, traffic

SMALL = Size(40, 12_000, 100)


def most(runs: int) -> float:
    return 0.05 + 2 * math.sqrt(0.05 * 0.95 / runs)


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_and_the_family_keep_their_levels(kind):
    """Looked at after every block; the six kinds of traffic."""
    by, family = errors(kind, SMALL, seed=5)
    for statistic, one in by.items():
        assert one.low_missed <= most(SMALL.runs), statistic
        assert one.high_missed <= most(SMALL.runs), statistic
    assert family.at_margin <= most(SMALL.runs)
    assert family.equal <= most(SMALL.runs)


def test_the_harness_can_see_a_failure():
    """A test that takes requests for independent fails in more than half of the runs."""
    assert negative_control("own queue, 20 requests", SMALL, seed=5) > 0.5
    assert negative_control("independent", SMALL, seed=5) <= most(SMALL.runs)


@pytest.mark.parametrize(("kind", "least"), [(Kind(), 0.95), (BURSTY, 0.90)])
@pytest.mark.parametrize("statistic", ["mean", "p50", "p95", FAILURES])
def test_twice_the_margin_is_rejected(kind, least, statistic):
    """At the level of a family of six."""
    share, _ = power(kind, statistic, Size(20, 30_000, 150), seed=5)
    assert share >= least - 2 * math.sqrt(0.1 * 0.9 / 20)


def test_outages_that_end_are_held_and_a_death_is_rejected():
    """Equal sides that go down and come back, one burst, and a candidate that dies in mid-run."""
    found = outages(Size(100, 0, 50), seed=5)
    assert found.equal <= most(100)
    assert found.burst == 0
    assert (found.died, found.blocks[1]) == (1, blocks_until(0.05 / 6 * LEVEL_SHARE))


def test_pairs_needed():
    """Near the published number for a mean and a median."""
    assert pairs_needed("mean", 0.10, 0.0, 584, 60, seed=5) <= 1.3 * 584 * 1.15
    assert pairs_needed("p50", 0.10, 0.0, 1152, 60, seed=5) <= 1.3 * 1152 * 1.15


@pytest.mark.parametrize("kind", KINDS)
def test_traffic_is_what_it_says(kind):
    """Both sides alike in distribution, seeded, stationary; failures at their rate."""
    drawn = [traffic(KINDS[kind], 40, 4000, np.random.default_rng(1)) for _ in range(2)]
    assert np.array_equal(drawn[0].here, drawn[1].here)
    assert np.median(drawn[0].here) == pytest.approx(np.median(drawn[0].there), abs=0.03)
    early, late = drawn[0].here[:, :2000], drawn[0].here[:, 2000:]
    assert np.median(early) == pytest.approx(np.median(late), abs=0.04)
    assert (drawn[0].fragile_here < 0.02).mean() == pytest.approx(0.02, rel=0.25)


def test_a_missed_target_is_said():
    """Each kind of target, on the page and in the exit status."""
    found = {
        "errors": {"independent": {"mean": Errors(0.2, 0.01)}},
        "family": {"independent": Family(0.1, 0.0, 1.0, 500.0)},
        "power": {("bursty", "p50"): (0.8, math.inf)},
        "needed": {("mean", 0.05, 0.0): (1000, 1400.0)},
        "control": {"own queue, 20 requests": 0.4},
        "rare": {"independent": Errors(0.0, 0.3)},
        "outages": Outages(0.3, 0.0, 0.9, (11.0, math.inf)),
        "facts": {"runs": 400, "pairs": 20_000, "seed": 1, "seconds": 60.0},
        "machine": {"cores": 2, "cpu": "a cpu"},
        "numpy": "2",
    }
    wrong = missed(found)
    assert len(wrong) == 7
    assert page(found, wrong).count("**Missed**") == 7
    found["control"] = {"own queue, 20 requests": 0.7}
    assert len(missed(found)) == 6


def test_the_sign_test_is_the_published_one():
    """Its e-values at 140 of 220 and at 30 of 42, and its exact error within 200 pairs."""
    assert float(sign_log_evidence(np.array(140), np.array(220))) == pytest.approx(
        6.055710717509669
    )
    assert float(sign_log_evidence(np.array(30), np.array(42))) == pytest.approx(2.5741100156594605)
    alive, ever = np.array([1.0]), 0.0
    for n in range(1, 201):
        wins = np.arange(n + 1)
        alive = 0.5 * (np.append(alive, 0) + np.insert(alive, 0, 0))
        crossed = sign_log_evidence(wins, np.full(n + 1, n)) >= math.log(20)
        ever += alive[crossed].sum()
        alive = np.where(crossed, 0, alive)
    assert ever == pytest.approx(0.03240742881087274, rel=1e-6)


def test_what_peeking_costs():
    """Repeated two-sided 5 % tests err in 8.3, 14.2, 19.3 %; the price of validity is 2.82 times."""
    rng = np.random.default_rng(2)
    for looks, expected in ((2, 0.083), (5, 0.142), (10, 0.193)):
        walk = rng.normal(size=(60_000, looks)).cumsum(axis=1) / np.sqrt(np.arange(1, looks + 1))
        assert (np.abs(walk) > 1.959964).any(axis=1).mean() == pytest.approx(expected, abs=0.006)
    kappa = normal_mixture(1000, 0.1, tuned_rho2(0.1, 1000))
    assert (kappa / 1.6448536269514722) ** 2 == pytest.approx(2.8232228377007025, rel=1e-6)
