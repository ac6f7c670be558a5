"""What the calibration calculates for many runs at once is what the product calculates for one."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.bounds import bounds
from analysis.compare.arrays import Arranged, mean_sample, quantile_sample, share_sample
from analysis.harm import edges
from analysis.metrics import split
from analysis.statistics.outages import LEVEL_SHARE
from bench.calibration.peeking import mean_looks, quantile_looks, share_looks
from bench.calibration.traffic import BURSTY, traffic

M, PLANNED, RUNS = 40, 60, 3
DRAWN = traffic(BURSTY, RUNS, 4000, np.random.default_rng(11))


def arranged(k: int) -> Arranged:
    return Arranged(np.arange(k * M) // M, np.ones(k * M), 1.0)


@pytest.mark.parametrize("statistic", ["mean", "p50", "p95", "p99"])
@pytest.mark.parametrize("k", [5, 12, 30, 100])
def test_times(statistic, k):
    """Both bounds of both looks, at every number of blocks."""
    metric, _ = split(f"tpot.{statistic}")
    p = None if statistic == "mean" else int(statistic[1:]) / 100
    of = mean_looks if p is None else lambda x, y, m: quantile_looks(x, y, m, p)
    looks = of(DRAWN.here, DRAWN.there, M)
    for run in range(RUNS):
        x, y = (np.exp(side[run, : k * M]) for side in (DRAWN.here, DRAWN.there))
        sample = (
            mean_sample(arranged(k), x, y) if p is None else quantile_sample(arranged(k), x, y, p)
        )
        limits = bounds(sample, metric, edges(metric, 0.05), 0.05 / 6, 0.05, PLANNED)
        assert looks.low(0.05 / 6, PLANNED)[run, k - 1] == pytest.approx(limits.harm_low, abs=1e-9)
        assert looks.high(0.05, PLANNED)[run, k - 1] == pytest.approx(limits.harm_high, abs=1e-9)


@pytest.mark.parametrize("k", [5, 12, 30, 100])
@pytest.mark.parametrize("edge", [0.005, 0.02])
def test_shares(k, edge):
    """Whether a bound has crossed an edge: blocks and betting together."""
    metric, _ = split("failure.rate")
    bad, reference_bad = DRAWN.fragile_here < 0.04, DRAWN.fragile_there < 0.02
    looks = share_looks(bad, reference_bad, M)
    for run in range(RUNS):
        pair = [1.0 * side[run, : k * M] for side in (bad, reference_bad)]
        limits = bounds(
            share_sample(arranged(k), *pair), metric, edges(metric, edge), 0.05, 0.05, PLANNED
        )
        assert looks.above(edge, 0.05, PLANNED)[run, k - 1] == limits.fails
        assert looks.within(edge, 0.05, PLANNED)[run, k - 1] == limits.passes


@pytest.mark.parametrize("k", [14, 30, 100])
def test_outages(k):
    """Failures as they are rejected: by their mean or by an outage, each with its part of the level."""
    metric, _ = split("failure.rate")
    bad, reference_bad = DRAWN.fragile_here < 0.04, DRAWN.fragile_there < 0.02
    bad[0, 2 * M : 30 * M] = True
    bad[1, 6 * M : 8 * M] = True
    bad[1, 20 * M :] = True
    looks, found = share_looks(bad, reference_bad, M), []
    for run in range(RUNS):
        pair = [1.0 * side[run, : k * M] for side in (bad, reference_bad)]
        sample = share_sample(arranged(k), *pair)
        limits = bounds(sample, metric, edges(metric, 0.02), 0.01, 0.05, PLANNED, half_life_s=1.0)
        found.append(limits.outage is not None)
        assert looks.fails(0.02, 0.01, PLANNED)[run, k - 1] == limits.fails
        assert looks.outage(0.02, 0.01 * LEVEL_SHARE)[run, k - 1] == found[-1]
    assert found == [k >= 14, k >= 33, False]
