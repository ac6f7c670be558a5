"""A burst is one event, a death in mid-run is a reject: failures that end, and failures that do not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.answers import report
from analysis.case import Evidence
from analysis.compare.arrays import Arranged, share_sample
from analysis.judge import judge
from analysis.look import Memory, look
from analysis.policy import Policy
from analysis.statistics.outages import LEVEL_SHARE, POINTS, blocks_until, longest_outage

from .world import POLICY, T0

BLOCK_S, A_BLOCK = 60, 50
BEGIN_S = 1_790_000_000


def judged(down: np.ndarray, every_s: float = BLOCK_S, a_block: int = A_BLOCK, **keys):
    """The verdict on failures alone; `down` has a candidate's failed pairs, shape (P,)."""
    number = np.arange(len(down)) // a_block
    at_s = BEGIN_S + np.arange(len(down)) * every_s / a_block
    span_s = len(down) / a_block * every_s
    sample = share_sample(
        Arranged(number, np.ones(len(down)), span_s, at_s), 1.0 * down, np.zeros(len(down))
    )
    default = Policy().model_dump()
    found = judge(
        Policy.model_validate({**default, **keys}),
        Evidence("fp8", "control", {"failure.rate": sample}, coverage=0.1, span_s=span_s),
    )
    return found.verdict, found.readings["failure.rate"]


def pairs(blocks: int, first_down: int, down_blocks: float) -> np.ndarray:
    down = np.zeros(blocks * A_BLOCK, bool)
    down[first_down * A_BLOCK : int((first_down + down_blocks) * A_BLOCK)] = True
    return down


N = blocks_until(0.05 * 6 / math.pi**2 / 6 * LEVEL_SHARE)


@pytest.mark.parametrize("alive", [15, 60, 300])
def test_a_death_in_mid_run_rejects_within_twelve_blocks(alive):
    """By the default policy, at 10 % coverage; a block earlier it holds, and says nothing of it."""
    assert N == 12
    verdict, reading = judged(pairs(alive + N, alive, N))
    assert (verdict, reading.state) == ("reject", "fail")
    assert f"for {N} blocks in a row (11 min at least)" in reading.sentence
    assert "was down from 2026-09-21T" in reading.sentence
    verdict, reading = judged(pairs(alive + N - 1, alive, N - 1))
    assert (verdict, reading.state) == ("hold", "open")


def test_a_burst_of_half_a_minute_in_an_hour_rejects_nothing():
    """In blocks of a minute, and in blocks of a second, of which it fills thirty."""
    assert judged(pairs(60, 30, 0.5))[0] == "hold"
    seconds = np.zeros(3600 * 20, bool)
    seconds[1800 * 20 : 1830 * 20] = True
    short = {"blocks": {"by": "time", "every": "1s", "min_pairs": 20}}
    assert judged(seconds, every_s=1, a_block=20, **short)[0] == "hold"


def test_blocks_of_a_second_wait_for_half_lives():
    """A death in blocks of a second: 11 half-lives of 30 s, or what the policy states."""
    short = {"blocks": {"by": "time", "every": "1s", "min_pairs": 20}}

    def dead(blocks: int, **keys) -> str:
        down = np.arange((600 + blocks) * 20) >= 600 * 20
        return judged(down, every_s=1, a_block=20, **short, **keys)[0]

    assert dead(320) == "hold"
    assert dead(331) == "reject"
    assert dead(N, outage="1s") == "reject"


def test_an_outage_that_came_back_still_counts_and_later_ones_for_less():
    """The evidence is the most there ever was; the j-th outage has 6/(π²j²) of it."""
    begins = np.arange(60) * 60
    excess = np.zeros(60)
    excess[10:22] = 1.0
    one = longest_outage(excess, begins, 0.005, 30.0)
    assert (one.blocks, one.begin_s, one.seconds) == (12, 600, 660)
    assert one.log_e == pytest.approx(math.log(6 / math.pi**2) + 11 * math.log(2))
    excess[:] = 0
    excess[[1, 3, 5]] = 1
    excess[10:22] = 1.0
    assert longest_outage(excess, begins, 0.005, 30.0).log_e == pytest.approx(
        one.log_e - 2 * math.log(4)
    )
    assert longest_outage(0 * excess, begins, 0.005, 30.0) is None
    assert longest_outage(excess * (POINTS / 2), begins, 0.005, 30.0) is None


def test_time_without_blocks_is_no_evidence():
    """Two blocks a day apart are two blocks; arrivals at one instant are none."""
    assert longest_outage(np.ones(2), np.array([0, 86400]), 0.005, 30.0).log_e < math.log(2)
    assert longest_outage(np.ones(40), np.zeros(40, int), 0.005, 30.0).log_e < 0


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_outages_that_end_keep_the_level(seed):
    """The e-value's mean over outages that go on with chance 1/2 is 1 at most (60 runs a seed)."""
    rng = np.random.default_rng(seed)
    begins, values = np.arange(40) * 60, []
    for _ in range(60):
        down = np.zeros(40)
        for k in range(1, 40):
            down[k] = rng.random() < (0.5 if down[k - 1] else 0.1)
        found = longest_outage(down, begins, 0.0, 30.0)
        values.append(found is not None and found.log_e >= math.log(1 / LEVEL_SHARE))
    assert np.mean(values) <= LEVEL_SHARE + 2 * math.sqrt(0.2 * 0.8 / 60)


def test_a_death_in_the_store_s_windows(world):
    """The same by windows: alive for 40 s, then nothing but timeouts; most of its answers are lost."""
    rules = {**POLICY, "outage": "1s"}
    settings = world.settings(control=None, policy=rules)
    world.traffic(40, 20, {"fp8": {}})
    world.traffic(14, 20, {"fp8": {"failure": 1.0}}, first=40)
    world.count(54, "fp8", "sampled", 5000)
    world.count(54, "fp8", "dropped", 5000 - 54 * 20, "deadline")
    world.store()
    world.heard(55, None)
    look(world.client, settings, Memory(), T0 + 56 * 10**9, whole=True)
    found = report(world.client, settings)["candidates"]["fp8"]
    assert found["coverage"] < 0.5
    assert found["verdict"] == "reject"
    assert "for 14 blocks in a row" in found["metrics"]["failure.rate"]["sentence"]
    assert found["metrics"]["failure.rate"]["interval"][0] is None or (
        found["metrics"]["failure.rate"]["interval"][0] < 0.005
    )
