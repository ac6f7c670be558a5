"""Without a candidate there is nothing to judge: said once, in one line, and waited for quietly."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
import structlog

from analysis.answers import report, stored
from analysis.gate import NO_CANDIDATE, gate
from analysis.look import Memory, look
from analysis.report import markdown
from analysis.service import run
from analysis.status import Status
from analysis.stopping import ended
from analysis.verdicts import samples_against_primary

from .world import T0

S = 10**9


@pytest.fixture(params=[None, "control"])
def alone(request, world):
    """No arm at all, or a lone control."""
    settings = world.settings(control=request.param)
    arms = {} if request.param is None else {request.param: {}}
    world.traffic(30, 20, arms)
    world.store()
    world.heard(31, None)
    names = () if request.param is None else (request.param,)
    comparisons = {name: settings.comparisons[name] for name in names}
    return replace(settings, candidates=(), comparisons=comparisons)


def test_a_look_finds_nothing_to_judge(world, alone):
    """A look, the report, the gate and the end of mirroring: none stumbles, the gate holds."""
    look(world.client, alone, Memory(), T0 + 42 * S, whole=True)
    tree = report(world.client, alone)
    assert tree["candidates"] == {}
    assert "No candidate is configured" in markdown(tree)
    answer = gate(stored(world.client, alone), known=alone.candidates, form="json")
    assert answer.code == 3
    assert f'"reason": "{NO_CANDIDATE}"' in answer.line
    assert gate(stored(world.client, alone), "fp8", known=alone.candidates).code == 3
    assert ended(world.client, alone, 0) == {}


def test_a_lone_control_still_shows_the_noise(world):
    """`shadow plan` reckons from the control against the primary, before there is a candidate."""
    settings = replace(world.settings(), candidates=(), comparisons={"control": "c-control"})
    world.traffic(30, 20, {"control": {}})
    world.store()
    world.heard(31, None)
    look(world.client, settings, Memory(), T0 + 42 * S, whole=True)
    assert samples_against_primary(world.client, settings, "control")["tpot.mean"].pairs == 600


def test_the_service_says_it_once(world, alone):
    """It runs, is ready, warns once and ends when told."""

    class Kept:
        def __getattr__(self, name):
            return getattr(world.client, name)

        def close(self):
            pass

    stop, status, looks = threading.Event(), Status(), []

    def then(_client):
        looks.append(status.looks_total)
        stop.set()

    with structlog.testing.capture_logs() as said:
        assert run(alone, Kept, stop, status=status, then=then) == 0
    assert looks
    assert status.reason is None
    assert [line["reason"] for line in said if line["log_level"] == "warning"] == [NO_CANDIDATE]
