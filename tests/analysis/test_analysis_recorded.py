"""Experiments without a configuration at hand: their last written verdicts are read, not judged."""

from __future__ import annotations

import time

from analysis.answers import as_it_stands, waive
from analysis.gate import gate
from analysis.look import Memory, look
from analysis.recorded import experiments, recorded
from analysis.waivers import Waiver

from .world import POLICY, T0

S = 10**9
GATED = {"tpot.mean": {"margin": "5%"}, "failure.rate": {"margin": "2pp"}}


def test_the_last_written_verdict_is_read(world):
    """Verdict, when it was judged, accounting and identities of an experiment, by its name alone."""
    settings = world.settings(control=None)
    assert recorded(world.client, settings.experiment) is None
    world.traffic(40, 20, {"fp8": {"tpot": 1.5}})
    world.store()
    world.heard(41, None)
    look(world.client, settings, Memory(), T0 + 42 * S, whole=True)
    tree = recorded(world.client, settings.experiment)
    assert tree["verdict"] == "reject"
    assert tree["candidates"]["fp8"]["judged_at"] == "2026-09-21T14:14:02+00:00"
    assert gate(tree, form="json").line.count("2026-09-21T14:14:02") == 1
    assert tree["comparison"] == settings.comparisons["fp8"]
    assert tree["policy_hash"] == settings.policy_hash
    assert tree["accounting"]["arms"]["fp8"]["captured"] == 800
    assert settings.experiment in experiments(world.client)
    assert "nowhere" not in experiments(world.client)


def test_a_promotion_whose_waiver_has_ended_holds(world):
    """A trade ends for whoever asks by name, too."""
    settings = world.settings(control=None, policy={**POLICY, "metrics": GATED})
    world.traffic(40, 20, {"fp8": {"tpot": 1.5}})
    world.store()
    world.heard(41, None)
    until_ns = time.time_ns() + 600 * S
    waived = Waiver("tpot.mean", "ann", "known", until_ns)
    look(world.client, settings, Memory(), T0 + 42 * S, whole=True)
    waive(world.client, settings, "fp8", waived)
    assert recorded(world.client, settings.experiment)["verdict"] == "promote"
    part = recorded(world.client, settings.experiment)["candidates"]["fp8"]
    ended = as_it_stands(part, T0, until_ns + S)
    assert ended["verdict"] == "hold"
    assert "a waiver has ended" in ended["reason"]
