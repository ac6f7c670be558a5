"""When mirroring ends by itself, and what is excluded around a standstill."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from analysis.answers import report
from analysis.look import Memory, look
from analysis.settings import Stop
from analysis.stopping import ENDED, Reached, ended, reasons, stopper
from analysis.windows import PRIMARY

from .world import EPOCH_S, T0

S = 10**9
NOW_S = EPOCH_S + 60


@pytest.mark.parametrize(
    ("stop", "reached", "why"),
    [
        (Stop(), Reached("hold"), ""),
        (Stop(), Reached("reject"), "verdict: reject"),
        (Stop(), Reached("promote"), "verdict: promote"),
        (Stop(on_verdict=False), Reached("reject"), ""),
        (Stop(pairs=100), Reached("hold", 99), ""),
        (Stop(pairs=100), Reached("hold", 1000), "stop_at.pairs: 1,000 complete pairs"),
        (Stop(hours=1), Reached("hold", 1, NOW_S - 3599), ""),
        (Stop(hours=1), Reached("hold", 1, NOW_S - 3600), "stop_at.hours: 1.0 hours since the first arrival"),
        (Stop(hours=1), Reached(), ""),
        (Stop(cost=5.0), Reached("hold", 1, None, 5.5), "stop_at.cost: 5.50 spent"),
    ],
)  # fmt: skip
def test_what_ends_it(stop, reached, why):
    """The first bound that is reached, and a final verdict unless told otherwise."""
    assert next(reasons(stop, reached, NOW_S), "") == why


def judged(world, settings, slower: float):
    world.traffic(40, 20, {"fp8": {"tpot": slower}, "control": {}})
    world.store()
    world.heard(41, None)
    look(world.client, settings, Memory(), T0 + 42 * S, whole=True)


def test_a_reject_ends_the_candidate_and_with_it_the_control(world):
    """A control alone measures nothing; the news is written down once."""
    settings, said = world.settings(), []

    def tell(found):
        news = not said or said[-1] != found
        said.append(found)
        return news

    assert ended(world.client, settings, NOW_S) == {}
    judged(world, settings, 1.5)
    for _ in range(3):
        stopper(settings, tell)(world.client)
    assert said[0]["fp8"] == "verdict: reject"
    assert set(said[0]) == {"fp8", "control"}
    rows = world.client.query(
        f"SELECT detail FROM events WHERE experiment = '{world.experiment}' AND kind = '{ENDED}'"
    ).result_rows
    assert [json.loads(detail)["ended"] for (detail,) in rows] == [said[0]]
    going_on = replace(settings, stop=Stop(on_verdict=False))
    assert ended(world.client, going_on, NOW_S) == {}


def test_pairs_hours_and_cost_are_read_from_the_store(world):
    """800 complete pairs; the first window; 11 tokens an answer at 1,000 a million."""
    settings = world.settings(control=None)
    judged(world, settings, 1.0)

    def why(**stop):
        told = Stop(on_verdict=False, prices={"fp8": (0.0, 1000.0)}, **stop)
        return ended(world.client, replace(settings, stop=told), NOW_S + 3600).get("fp8", "")

    assert why(pairs=800) == "stop_at.pairs: 800 complete pairs"
    assert why(pairs=801) == ""
    assert why(hours=1).startswith("stop_at.hours: 1.0 hours")
    assert why(hours=2) == ""
    assert why(cost=8.8) == "stop_at.cost: 8.80 spent"
    assert why(cost=8.81) == ""


def test_pairs_after_a_standstill_are_excluded_and_nobodys_gap(world):
    """Their reason is after_window; coverage stays whole; the primary's own of a window pair with
    nobody."""
    settings = world.settings(control=None)
    for n in range(100):
        mirroring = "after" if n < 10 else "on"
        for arm in (PRIMARY, "fp8"):
            world.exchange(n / 10, f"p{n}", arm, mirroring=mirroring)
    for n in range(20):
        world.exchange(n / 10, f"off{n}", PRIMARY, mirroring="off")
    world.store()
    world.heard(11, None)
    look(world.client, settings, Memory(), T0 + 42 * S, whole=True)
    part = report(world.client, settings)["candidates"]["fp8"]
    assert part["excluded"] == {"after_window": 10}
    assert part["pairs"]["complete"] == 90
    assert part["coverage"] == 1.0
