"""Segments: a part that is beyond its margin is named, an equal one hardly ever, and the whole decides."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from analysis.answers import report
from analysis.look import Memory, look
from analysis.pair_file.judging import judge_file, known
from analysis.pair_file.reading import read
from analysis.policy import SEGMENTS, Policy
from analysis.report import markdown
from analysis.segments import bucket, masks
from analysis.statistics.multiplicity import e_bh

from .pair_lines import POLICY, lines, text
from .world import POLICY as STORE_POLICY
from .world import T0

RULES = Policy.model_validate({**POLICY, "metrics": {"tpot.mean": {"margin": "5%"}}})


def judged(trees: list[dict]) -> dict:
    file = read(text(trees).encode().splitlines(), known(RULES))
    return judge_file(file, RULES, "file")


def with_models(slower: float, pairs: int = 6000, seed: int = 1) -> list[dict]:
    """A fifth of the traffic is of model b, on which the candidate is slower."""
    trees = lines(pairs, seed=seed)
    for i, tree in enumerate(trees):
        tree["segment"] = {"model": "b" if i % 5 == 0 else "a", "prompt_tokens": 100 + i % 900}
        if tree["segment"]["model"] == "b":
            tree["tpot_ms"][1] *= slower
    return trees


def test_a_part_that_disagrees_with_the_whole_is_named():
    """15 % slower on a fifth: 2.8 % as a whole, which passes; the report says where it is not."""
    tree = judged(with_models(1.15))
    part = tree["candidates"]["fp8"]
    assert (part["verdict"], part["segments"]["worst"]["value"]) == ("promote", "b")
    assert [one["value"] for one in part["segments"]["found"]] == ["b"]
    said = "tpot.mean where model is b: +15"
    assert said in part["segments"]["disagreement"]
    assert "(as a whole pass)" in part["segments"]["disagreement"]
    assert f"**Segments disagree**: beyond the margin in a part of the traffic: {said}" in markdown(
        tree
    )
    json.dumps(tree, allow_nan=False)


def test_equal_parts_are_not_named():
    """Four parts in each of twenty equal runs: nothing is found, though something is the worst."""
    for seed in range(20):
        segments = judged(with_models(1.0, 1500, seed))["candidates"]["fp8"]["segments"]
        assert segments["found"] == []
        assert segments["disagreement"] is None
        assert segments["looked_at"] == 4
        assert segments["worst"]["segment"] in {"model", "prompt_tokens"}


def test_one_value_is_no_part_and_rare_ones_are_left_out():
    """A segment with one value says what the whole says; of many the twenty most frequent count."""
    assert judged(lines(segment={"model": "m"}))["candidates"]["fp8"]["segments"]["looked_at"] == 0
    words = np.array([f"m{i % 50}" for i in range(500)] + ["often"] * 9, dtype=object)
    assert len(masks(words, "model")) == 20
    assert masks(words, "model")["m0"].sum() == 10


@pytest.mark.parametrize(
    ("segment", "value", "part"),
    [("prompt_tokens", "255", "below 256"), ("prompt_tokens", "256", "below 1,024"),
     ("output_tokens", "99999", "16,384 and more"), ("cached", "0", "none"), ("cached", "7", "some"),
     ("model", "7", "7"), ("prompt_tokens", "long", "long")],
)  # fmt: skip
def test_buckets(segment, value, part):
    """Counts by steps, prefixes by whether there is one, words as they are."""
    assert bucket(segment, value) == part


def test_e_bh_against_the_vector():
    """The published case, and the bound itself: k of n need n/(k·rate)."""
    e = [500, 90, 45, 20, 8, 2, 0.5, 0.1]
    assert e_bh([math.log(one) for one in e], 0.05) == [True, True] + [False] * 6
    assert e_bh([math.log(20)], 0.05) == [True]
    assert e_bh([math.log(19)], 0.05) == [False]
    assert e_bh([], 0.05) == []


def test_segments_of_stored_pairs(world):
    """From the store: the newest pairs, in the version that counts, by every segment of the policy."""
    rules = {
        **STORE_POLICY,
        "metrics": {"tpot.mean": {"margin": "5%"}, "failure.rate": {"margin": "5pp"}},
    }
    settings = world.settings(policy=rules)
    world.traffic(100, 22, {"fp8": {}, "control": {}})
    for row in world.pending_rows:
        odd = row["pair_id"].endswith(("1", "5"))
        row |= {"model": "b" if odd else "a", "prompt_tokens": 2000 if odd else 20, "path": "/v1"}
        if odd and row["arm"] == "fp8":
            row["tpot_ms"] *= 1.2
    world.store()
    world.heard(101, None)
    look(world.client, settings, Memory(), T0 + 102 * 10**9, whole=True)
    tree = report(world.client, settings)
    segments = tree["candidates"]["fp8"]["segments"]
    found = {(one["segment"], one["value"], one["metric"]) for one in segments["found"]}
    assert found == {("model", "b", "tpot.mean"), ("prompt_tokens", "below 4,096", "tpot.mean")}
    assert segments["worst"]["delta"] == pytest.approx(0.2, abs=0.02)
    assert set(SEGMENTS) == {
        "model",
        "route",
        "streamed",
        "prompt_tokens",
        "output_tokens",
        "cached",
    }


def test_the_worst_is_the_one_that_is_furthest_where_nothing_is_sure():
    """A rare model on which all fails is named before parts with more pairs and no harm."""
    trees = lines(1200)
    rules = Policy.model_validate(
        {**POLICY, "metrics": {"tpot.mean": {"margin": "5%"}, "failure.rate": {"margin": "5pp"}}}
    )
    for i, tree in enumerate(trees):
        rare = i % 30 == 0
        tree["segment"] = {"model": "rare" if rare else "m"}
        if rare:
            tree["ok"][1], tree["tpot_ms"][1] = False, None
    file = read(text(trees).encode().splitlines(), known(rules))
    worst = judge_file(file, rules, "file")["candidates"]["fp8"]["segments"]["worst"]
    assert (worst["metric"], worst["value"], worst["delta"]) == ("failure.rate", "rare", 1.0)
