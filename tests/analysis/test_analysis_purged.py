"""What was purged with its measures leaves the figures, and holds nothing open."""

from __future__ import annotations

from analysis.answers import report
from analysis.closing import Progress
from analysis.look import Memory, look
from analysis.workers import standing
from collector.purge import purge

from .world import T0, World

S = 10**9


def judged(world: World, at_s: int) -> dict:
    look(world.client, world.settings(control=None), Memory(), T0 + at_s * S, whole=True)
    return report(world.client, world.settings(control=None))["candidates"]["fp8"]


def filled(world: World) -> None:
    """40 pairs, four of them one person's, of a worker that lives."""
    world.traffic(4, 10, {"fp8": {}})
    for row in world.pending_rows:
        row["subject"] = world.experiment if row["pair_id"].endswith("-3") else "other"
    world.store()
    for arm in ("primary", "fp8"):
        world.count(5, arm, "sampled", 40)


def test_a_purge_before_the_windows_leaves_pairs_of_unknown_outcome(world):
    """Windows close, since no sequence is missing; nothing is lost; the person's pairs are not judged."""
    filled(world)
    purge(world.client, world.experiment, T0 + 5 * S, measures=True)
    world.heard(5, 5)
    state = standing(world.client, world.settings(control=None), Progress(), T0 + 5 * S)
    assert state.watermark_ns == T0 + 5 * S
    assert (state.accounts["fp8"].lost, state.accounts["fp8"].captured) == (0, 40)
    found = judged(world, 5)
    assert found["pairs"]["complete"] == 36
    assert found["excluded"] == {"unknown_outcome": 4}
    assert found["coverage"] == 0.9


def test_a_purge_after_the_windows_leaves_their_sums(world):
    """A window that was built is not built again for it: its figures stand, its pairs' rows are gone."""
    filled(world)
    world.heard(5, 5)
    before = judged(world, 5)
    assert before["pairs"]["complete"] == 40
    purge(world.client, world.experiment, T0 + 5 * S, measures=True)
    assert judged(world, 6) == before
    left = world.client.query(
        f"SELECT count(), countIf(pair_id LIKE '%-3') FROM pairs FINAL WHERE experiment = '{world.experiment}'"
    ).result_rows
    assert left == [(36, 0)]
