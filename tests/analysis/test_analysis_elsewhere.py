"""A file that the running analysis has not read: gate and report say so, with the way out."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from analysis.answers import report, stored
from analysis.elsewhere import RUNS_NS, elsewhere, told
from analysis.gate import gate
from analysis.look import Memory, look
from analysis.policy import Policy

from .world import POLICY, T0

S = 10**9


def judged(world):
    """An experiment with a hold that was just written, and its settings."""
    settings = world.settings(control=None, policy={**POLICY, "coverage": 1.0, "min_span": "9h"})
    world.traffic(30, 20, {"fp8": {}})
    world.store()
    world.heard(31, None)
    look(world.client, settings, Memory(), T0 + 32 * S, whole=True)
    return settings


def test_another_policy(world):
    """Both hashes and the way out; by the age of what was written, whether an analysis runs."""
    settings = judged(world)
    changed = {arm: f"{one}-2" for arm, one in settings.comparisons.items()}
    other = replace(settings, policy=Policy(), comparisons=changed)
    assert elsewhere(world.client, settings, T0 + 33 * S) is None
    why = elsewhere(world.client, other, T0 + 33 * S)
    assert why == (
        f"the last analysis has another policy (hash {settings.policy_hash}, "
        f"this file's hash {other.policy_hash}): restart it"
    )
    late = elsewhere(world.client, other, T0 + 33 * S + RUNS_NS)
    assert late.startswith("the last verdict, of 2026-09-21T14:13:52+00:00, has another policy")
    assert late.endswith("start the analysis with this file")
    assert stored(world.client, other) is None
    part = report(world.client, other)["candidates"]["fp8"]
    assert part["warnings"][0] == part["reason"].partition("; ")[0]
    assert "has another policy (hash" in part["reason"]


def test_another_configuration(world):
    """Named as such; both, where both differ; a hold that was written says it before its reason."""
    settings = judged(world)
    other = replace(settings, config_hash="c2")
    why = elsewhere(world.client, other, T0)
    assert why == (
        "the last analysis has another configuration (hash c1, this file's hash c2): restart it"
    )
    both = elsewhere(world.client, replace(other, policy=Policy()), T0)
    assert both.count("this file's hash") == 2
    line = gate(stored(world.client, other)).line
    assert line.startswith("fp8: hold: the last verdict, of ")
    assert "min_span" in line or "undecided" in line


def test_nothing_was_written_yet(world):
    """Then nobody can tell, and nothing is said."""
    assert elsewhere(world.client, world.settings(), time.time_ns()) is None


@pytest.mark.parametrize("verdict", ["promote", "reject"])
def test_a_final_verdict_keeps_its_reason(verdict):
    """It was written for this very comparison; that another one is judged now is a warning."""

    part = told({"verdict": verdict, "reason": "why", "warnings": ["w"]}, "elsewhere")
    assert part == {"verdict": verdict, "reason": "why", "warnings": ["elsewhere", "w"]}
