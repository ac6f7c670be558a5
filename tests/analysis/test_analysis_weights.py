"""Weights: few pairs that speak for nearly all decide nothing by themselves; none at all is no data."""

from __future__ import annotations

import math

import numpy as np
import pytest

from analysis.answers import report
from analysis.compare.arrays import Arranged, mean_sample, quantile_sample, share_sample
from analysis.compare.sample import kish_blocks
from analysis.look import Memory, look
from analysis.pair_file.judging import judge_file, known
from analysis.pair_file.reading import read
from analysis.policy import Policy

from .pair_lines import POLICY, lines, text
from .world import POLICY as STORE_POLICY
from .world import T0

RULES = Policy.model_validate({**POLICY, "metrics": {"tpot.mean": {"margin": "5%"}}})


def judged(trees):
    file = read(text(trees).encode().splitlines(), known(RULES))
    return judge_file(file, RULES, "file")["candidates"]["fp8"]


def test_worth_of_blocks():
    """Equal weights are worth their number, one that has all of it is worth one."""
    block = np.array([0, 0, 1, 2])
    assert kish_blocks(np.array([1.0, 1.0, 2.0, 2.0]), block) == pytest.approx(3)
    assert kish_blocks(np.array([1e9, 0.0, 1.0, 1.0]), block) == pytest.approx(1)


@pytest.mark.parametrize("seed", range(5))
def test_one_pair_that_outweighs_all_decides_nothing(seed):
    """An equal candidate: the mean is one pair's, which no spread of the others excuses."""
    trees = lines(seed=seed)
    trees[77]["weight"] = 1e6
    trees[77]["tpot_ms"] = [20.0, 22.0, 20.0]
    found = judged(trees)
    assert found["verdict"] == "hold"
    assert found["metrics"]["tpot.mean"]["effective_blocks"] < 2
    assert "no more than 1.0 independent ones" in found["reason"]
    trees[77]["weight"] = 1.0
    assert judged(trees)["verdict"] == "promote"


def test_every_kind_of_sample_knows_its_worth():
    """Times, quantiles and shares count no more blocks than their weights are worth."""
    rng = np.random.default_rng(1)
    weight = np.where(np.arange(2000) < 20, 1e4, 1.0)
    of = Arranged(np.arange(2000) // 20, weight, 100.0)
    x, y = np.exp(rng.normal(0, 0.1, (2, 2000)))
    bad = 1.0 * (rng.random((2, 2000)) < 0.1)
    samples = mean_sample(of, x, y), quantile_sample(of, x, y, 0.5), share_sample(of, *bad)
    assert all(sample.kish == pytest.approx(1, abs=0.1) for sample in samples)
    assert all(sample.spread.effective <= sample.kish for sample in samples)
    assert all(math.isfinite(sample.spread.se) for sample in samples)


def test_pairs_without_weight_are_no_data(world):
    """The wire refuses such a weight; rows that got by hold, and stop nothing."""
    rules = {**STORE_POLICY, "metrics": {"ttft_any.p50": {"margin": "5%"}}}
    settings = world.settings(control=None, policy=rules)
    for i in range(600):
        for arm in ("primary", "fp8"):
            world.exchange(i / 20, f"p{i}", arm, weight=0.0)
    world.store()
    world.heard(31, None)
    look(world.client, settings, Memory(), T0 + 32 * 10**9, whole=True)
    part = report(world.client, settings)["candidates"]["fp8"]
    assert part["verdict"] == "hold"
    assert part["metrics"]["ttft_any.p50"]["state"] == "open"


def test_a_pair_weighs_what_its_arm_s_record_says(world):
    """Not what the primary's does, which with arms of different keys is too much: it is in no pair."""
    for n in range(4):
        world.exchange(0.1 * n, f"p{n}", "primary", weight=1000.0 * (n + 1))
        world.exchange(0.1 * n, f"p{n}", "fp8", weight=2.0)
        world.exchange(0.1 * n, f"p{n}", "control", weight=4.0)
    world.store()
    world.heard(2, None)
    look(world.client, world.settings(), Memory(), T0 + 100 * 10**9, whole=True)
    found = world.client.query(
        "SELECT arm, reference_arm, groupUniqArray(weight), count() FROM pairs FINAL"
        f" WHERE experiment = '{world.experiment}' GROUP BY arm, reference_arm ORDER BY ALL"
    ).result_rows
    assert [tuple(row) for row in found] == [
        ("control", "primary", [4.0], 4),
        ("fp8", "control", [2.0], 4),
        ("fp8", "primary", [2.0], 4),
    ]
