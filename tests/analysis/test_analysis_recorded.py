"""Experiments without a configuration at hand: their last written verdicts are read, not judged."""

from __future__ import annotations

from analysis.look import Memory, look
from analysis.recorded import experiments, recorded

from .world import T0

S = 10**9


def test_the_last_written_verdict_is_read(world):
    """Verdict, accounting and identities of an experiment, by its name alone."""
    settings = world.settings(control=None)
    assert recorded(world.client, settings.experiment) is None
    world.traffic(40, 20, {"fp8": {"tpot": 1.5}})
    world.store()
    world.heard(41, None)
    look(world.client, settings, Memory(), T0 + 42 * S, whole=True)
    tree = recorded(world.client, settings.experiment)
    assert tree["verdict"] == "reject"
    assert tree["comparison"] == settings.comparisons["fp8"]
    assert tree["policy_hash"] == settings.policy_hash
    assert tree["accounting"]["arms"]["fp8"]["captured"] == 800
    assert settings.experiment in experiments(world.client)
    assert "nowhere" not in experiments(world.client)
