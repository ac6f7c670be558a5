"""A verdict that has not seen the newest traffic is not relied on."""

from __future__ import annotations

from analysis.behind import SLACK_S, behind
from analysis.look import Memory, look

from .world import T0

S = 10**9


def test_a_frozen_analysis_is_noticed(world):
    """Traffic goes on after the last look: behind, once its windows could have been built."""
    settings = world.settings(control=None)
    world.traffic(40, 20, {"fp8": {}})
    world.store()
    world.heard(41, 41)
    look(world.client, settings, Memory(), T0 + 42 * S, whole=True)
    assert behind(world.client, settings, "fp8", T0 + 300 * S) is None
    world.traffic(10, 20, {"fp8": {"failure": 1.0}}, first=60)
    world.store()
    world.heard(71, 71)
    assert behind(world.client, settings, "fp8", T0 + 72 * S) is None
    late = T0 + (71 + 2 + SLACK_S) * S
    world.heard(71 + SLACK_S, 71 + SLACK_S)
    said = behind(world.client, settings, "fp8", late)
    assert said is not None
    assert "behind" in said
    look(world.client, settings, Memory(), late, whole=True)
    assert behind(world.client, settings, "fp8", late) is None


def test_a_stream_of_minutes_is_no_delay(world):
    """What a live worker's low water has not passed cannot be judged yet: nothing is behind."""
    settings = world.settings(control=None)
    world.traffic(40, 20, {"fp8": {}})
    world.store()
    world.heard(41, 41)
    look(world.client, settings, Memory(), T0 + 42 * S, whole=True)
    world.traffic(10, 20, {"fp8": {}}, first=60)
    world.store()
    world.heard(400, 55)
    assert behind(world.client, settings, "fp8", T0 + 401 * S) is None
