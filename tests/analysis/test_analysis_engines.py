"""An engine that names itself otherwise is another engine: the comparison starts anew, once."""

from __future__ import annotations

import pytest

from analysis.answers import report, stored
from analysis.engines import MOST, identified, notice
from analysis.look import Memory, look

from .world import T0

S = 10**9
FOREVER = 10**19 // 2


def seconds(world, first: int, upto: int, prints: dict[str, str]) -> None:
    for second in range(first, upto):
        for i in range(20):
            for arm in ("primary", "fp8", "control"):
                world.exchange(
                    second + i / 20, f"p{second}-{i}", arm, fingerprint=prints.get(arm, "")
                )
    world.store()
    world.heard(upto, upto)


def test_a_new_engine_starts_a_new_comparison(world):
    """The first name changes nothing; the candidate's second one counts from the next window on."""
    settings = world.settings()
    seconds(world, 0, 20, {"fp8": "a", "primary": "p"})
    memory = look(world.client, settings, Memory(), T0 + 21 * S)
    first = report(world.client, settings)
    assert first["comparison"] == settings.comparisons["fp8"]
    assert first["candidates"]["fp8"]["pairs"]["complete"] == 400
    seconds(world, 21, 40, {"fp8": "b", "primary": "p"})
    memory = look(world.client, settings, memory, T0 + 41 * S)
    seconds(world, 42, 60, {"fp8": "b", "primary": "p"})
    look(world.client, settings, memory, T0 + 61 * S)
    second = report(world.client, settings)
    assert second["comparison"] != first["comparison"]
    assert second["candidates"]["fp8"]["pairs"]["complete"] == 360
    assert second["candidates"]["fp8"]["attempt"] == 2
    assert (
        "configuration changed (or the policy, or an engine)"
        in second["candidates"]["fp8"]["reason"]
    )
    assert stored(world.client, settings)["comparison"] == second["comparison"]


@pytest.mark.parametrize("arm", ["primary", "control", "fp8"])
def test_every_side_counts_and_an_old_name_is_no_news(world, arm):
    """A second name of any side changes the candidate's identity; the same one again does not."""
    settings = world.settings()
    for i, name in enumerate(("a", "b", "a", "b")):
        world.exchange(i, f"p{i}", arm, fingerprint=name)
    world.store()
    changed = notice(world.client, settings, 0, FOREVER, T0)
    assert changed.comparisons["fp8"] != settings.comparisons["fp8"]
    assert notice(world.client, settings, 0, FOREVER, T0) == changed
    assert identified(world.client, settings) == changed


def test_an_engine_with_a_name_an_answer_names_nothing(world):
    """Only so many names are believed: it does not start anew for ever."""
    settings = world.settings()
    for i in range(MOST + 20):
        world.exchange(i, f"p{i}", "fp8", fingerprint=f"f{i}")
    world.store()
    once = notice(world.client, settings, 0, FOREVER, T0)
    world.exchange(99, "p99", "fp8", fingerprint="another")
    world.store()
    assert notice(world.client, settings, 0, FOREVER, T0) == once
