"""Several copies of a request: they enter every figure as their mean, and as copies the accounting."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from analysis.answers import report
from analysis.copies import notes
from analysis.evidence import Contrast, samples
from analysis.look import Memory, look
from analysis.policy import Policy
from analysis.report import markdown
from analysis.settings import Stop
from analysis.stopping import ended

from .world import POLICY, T0, World

S = 10**9
BLOCKS = Policy.model_validate({"blocks": {"by": "count", "pairs": 1}}).blocks


def run(world, settings, now_s=100):
    return look(world.client, settings, Memory(), T0 + now_s * S, whole=True)


def amplified(world, copies, **more):
    return replace(world.settings(**more), copies=copies)


def sample(world, settings, name, reference="control", blocks=BLOCKS):
    contrast = Contrast(world.experiment, settings.comparisons["fp8"], "fp8", reference)
    return samples(world.client, contrast, [name], blocks)[name]


def request(world, pair, primary, fp8, control=(), second=0.1):
    """One request: a dict of facts for each copy."""
    world.exchange(second, pair, "primary", **primary)
    for arm, copies in (("fp8", fp8), ("control", control)):
        for replica, facts in enumerate(copies):
            world.exchange(second, pair, arm, replica=replica, **facts)


def test_a_time_is_the_mean_of_the_copies_log_ratios(world):
    """Three copies against the primary's one answer, and against two of the control's in turn."""
    fp8 = [{"tpot_ms": value} for value in (20.0, 40.0, 80.0)]
    control = [{"tpot_ms": value} for value in (10.0, 30.0)]
    request(world, "p1", {"tpot_ms": 20.0}, fp8, control)
    world.store()
    world.heard(2, None)
    settings = amplified(world, {"fp8": 3, "control": 2})
    run(world, settings)
    against_primary = sample(world, settings, "tpot.mean", "primary")
    assert against_primary.pairs == 1
    assert against_primary.estimate == pytest.approx(np.mean(np.log([1, 2, 4])))
    expected = np.mean(np.log([20 / 10, 40 / 30, 80 / 10]))
    assert sample(world, settings, "tpot.mean").estimate == pytest.approx(expected)


def test_shares_and_sums_are_means_too(world):
    """A third of the copies failed, half of the others differ: thirds of one request, not three requests."""
    fp8 = [
        {"failure": 1, "outcome": "http_error"},
        {"text_hash": 2, "output_tokens": 31},
        {"text_hash": 1, "output_tokens": 11},
    ]
    request(world, "p1", {}, fp8)
    world.store()
    world.heard(2, None)
    settings = amplified(world, {"fp8": 3}, control=None)
    run(world, settings)
    failure = sample(world, settings, "failure.rate", "primary")
    assert (failure.pairs, failure.value) == (1, pytest.approx(1 / 3))
    assert failure.counts == pytest.approx((1 / 3, 0, 2 / 3))
    assert sample(world, settings, "mismatch.rate", "primary").value == pytest.approx(1 / 2)
    tokens = sample(world, settings, "output_tokens.ratio", "primary")
    assert math.exp(tokens.estimate) == pytest.approx(21 / 11)


def test_equal_copies_say_what_one_says(world):
    """Every copy as the first, with a weight: the same estimates, pairs, counts and spread."""
    rng = np.random.default_rng(3)
    for i in range(120):
        facts = {"tpot_ms": 20 * math.exp(rng.normal()), "text_hash": 1 + int(rng.random() < 0.1)}
        request(world, f"p{i}", {}, [{**facts, "weight": 4.0}] * 3, [{}], second=i / 10)
    alone = World(world.client, f"{world.experiment}-once")
    first = [row for row in world.pending_rows if row["replica"] == 0]
    alone.pending_rows = [{**row, "experiment": alone.experiment} for row in first]
    thrice, once = amplified(world, {"fp8": 3}), alone.settings()
    for each, settings in ((world, thrice), (alone, once)):
        each.store()
        each.heard(20, None)
        run(each, settings)
    blocks = Policy.model_validate(POLICY).blocks
    for name in ("tpot.mean", "tpot.p50", "mismatch.rate", "failure.rate", "output_tokens.ratio"):
        many = sample(world, thrice, name, "control", blocks)
        one = sample(alone, once, name, "control", blocks)
        assert many.pairs == one.pairs, name
        assert many.estimate == pytest.approx(one.estimate, abs=1e-12), name
        assert many.influences == pytest.approx(one.influences, abs=1e-9), name
        assert many.counts == (None if one.counts is None else pytest.approx(one.counts)), name


def test_a_quantile_is_not_that_of_means(world):
    """An equal arm with three copies stays equal at p95: copies add to the distribution as they are."""
    rng = np.random.default_rng(5)
    for i in range(600):
        one, two, three, alone = 100 * np.exp(rng.normal(0, 1, 4))
        fp8 = [{"ttft_any_ms": value} for value in (one, two, three)]
        request(world, f"p{i}", {}, fp8, [{"ttft_any_ms": alone}], second=i / 100)
    world.store()
    world.heard(20, None)
    settings = amplified(world, {"fp8": 3})
    run(world, settings)
    found = sample(world, settings, "ttft_any.p95", blocks=Policy.model_validate(POLICY).blocks)
    assert found.estimate == pytest.approx(0, abs=0.25)  # of means of three it would be about -0.6


def test_copies_count_as_copies_on_both_sides_of_coverage(world):
    """Ten requests, three copies: one dropped, one lost of thirty, the rest judged, none twice."""
    for i in range(10):
        request(world, f"p{i}", {}, [{}] * (3 if i else 1), second=i / 10)
    world.store()
    world.heard(2, None, dropped_sequences=1)
    world.count(2, "fp8", "sampled", 30)
    world.count(2, "fp8", "dropped", 1, reason="concurrency")
    settings = amplified(world, {"fp8": 3}, control=None)
    run(world, settings)
    told = report(world.client, settings)
    part = told["candidates"]["fp8"]
    assert part["pairs"] | {"late": 0} == {
        "sampled": 30, "complete": 28, "excluded": 0, "pending": 0, "waiting": 0, "late": 0, "copies": 3,
        "controlled": None,
    }  # fmt: skip
    assert part["coverage"] == pytest.approx(28 / 30)
    assert "28 pairs judged against primary, 3 copies of each request" in markdown(told)
    assert any("fp8 gets 3 of each request and primary 1" in said for said in part["warnings"])
    assert not list(notes("fp8", "control", {"fp8": 3, "control": 3}, 0))


def test_stop_at_counts_requests(world):
    """Thirty pairs of ten requests are ten."""
    for i in range(10):
        request(world, f"p{i}", {}, [{}] * 3, second=i / 10)
    world.store()
    world.heard(2, None)
    settings = replace(amplified(world, {"fp8": 3}, control=None), stop=Stop(pairs=11))
    run(world, settings)
    assert ended(world.client, settings, 0.0) == {}
    enough = replace(settings, stop=Stop(pairs=10))
    assert ended(world.client, enough, 0.0) == {"fp8": "stop_at.pairs: 10 complete pairs"}
