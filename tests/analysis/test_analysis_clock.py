"""A clock that is set by hours, either way: nobody alive is dead, no window waits for it, no word is older."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import replace

import pytest

from analysis.answers import as_it_stands, report, stored
from analysis.behind import SLACK_S, behind
from analysis.clock import STEP_S, WallClock
from analysis.closing import (
    Boot,
    Progress,
    Stored,
    live,
    marks,
    patient,
    settle,
    watched,
    watermark,
)
from analysis.comparison import started
from analysis.elsewhere import elsewhere
from analysis.gate import aged, gate
from analysis.look import Memory, look
from analysis.service import run
from analysis.settings import Settings
from analysis.waivers import Waiver, active, waive
from analysis.workers import standing
from analysis.written import written

from .world import POLICY, T0

S = 10**9
HOURS = 3 * 3600
NOW = 10_000_000 * S
BEFORE = NOW + HOURS * S
"""Stamps of before the clock was set back by hours."""


def boot(name: str, at_ns: int, worker: str = "w1", **more) -> Boot:
    return Boot(worker, name, at_ns, 10, 0, at_ns - S, False, **more)


@pytest.mark.parametrize("final", [False, True])
def test_a_restart_after_the_clock_was_set_back(final):
    """The new process of a place is alive, though the one before spoke of later; so is a worker
    that was never restarted, beside another's record from the future."""
    old = replace(boot("old", BEFORE), final=final)
    new, other = boot("new", NOW), boot("other", NOW - S, "w2")
    assert live([old, new, other], NOW).keys() == {"new", "other"}
    gone = replace(boot("gone", BEFORE, "w3"), final=final)
    alive = live([old, new, other, gone], NOW)
    assert alive.keys() - {"gone"} == {"new", "other"}


def test_all_records_are_of_before():
    """In the second in which nobody has told by the new clock everybody is as he was."""
    first, second = boot("a", BEFORE), boot("b", BEFORE - 5 * S, "w2")
    silent = boot("c", BEFORE - 40 * S, "w3")
    assert live([first, second, silent], NOW).keys() == {"a", "b"}


def test_a_host_whose_clock_is_ahead_makes_nobody_dead():
    """Each is compared with those of its own time."""
    assert live([boot("a", NOW), boot("b", BEFORE, "w2")], NOW).keys() == {"a", "b"}


def looks(boots_of, seconds, progress=None, steady_s=0, step_s=2):
    """Looks, one every so often, of the boots at each second: who is alive, the last watermark."""
    progress, found = progress or Progress(), []
    for second in range(0, seconds, step_s):
        boots, now = boots_of(second), NOW + second * S
        held = {"dead": Stored(9, BEFORE), "ahead": Stored(10, BEFORE), "ok": Stored(10, now)}
        progress = watched(progress, boots, (steady_s + second) * S)
        progress = settle(progress, marks(progress, live(boots, now, progress.still)), held)
        alive = live(boots, now, progress.still).keys()
        found.append((alive, watermark(progress, boots, held, now, 1)))
    return progress, found


def dead_and_healthy(second):
    """One killed with a record missing, by a clock that was ahead; beside it one that is well."""
    return [boot("dead", BEFORE), boot("ok", NOW + second * S, "w2")]


def test_who_died_ahead_of_our_clock_holds_for_minutes():
    """Not until the clock has come there: dead is whose record stood still for so long while we
    watched. What an analysis that starts again cannot know begins anew."""
    progress, found = looks(dead_and_healthy, 320)
    assert [alive for alive, _ in found[:151]] == [{"dead", "ok"}] * 151
    assert [closed for _, closed in found[:151]] == [None] * 151
    assert [alive for alive, _ in found[151:]] == [{"ok"}] * 9
    assert found[-1][1] == NOW + 317 * S
    there = [boot("dead", BEFORE), boot("ok", BEFORE, "w2")]
    progress = watched(progress, there, 400 * S)
    assert live(there, BEFORE, progress.still).keys() == {"ok"}  # nor when it has come there
    assert looks(dead_and_healthy, 2)[1][0] == ({"dead", "ok"}, None)


def test_whose_records_move_is_alive_however_far_ahead():
    """However slowly they come, and however long the store was away between two looks; and again
    from its first record on, where the collector had been away from it alone for longer."""

    def boots_of(second):
        told = BEFORE + second // 240 * 240 * S
        return [boot("ahead", told), boot("ok", NOW + second * S, "w2")]

    progress, found = looks(boots_of, 1200)
    assert {len(alive) for alive, _ in found} == {2}
    _, found = looks(boots_of, 200, progress, steady_s=1200 + HOURS)
    assert {len(alive) for alive, _ in found} == {2}
    silent, _ = looks(lambda second: [boot("ahead", BEFORE), boots_of(second)[1]], 400)
    assert not live([boot("ahead", BEFORE)], NOW, silent.still)
    moved = [boot("ahead", BEFORE + S)]
    assert live(moved, NOW, watched(silent, moved, 401 * S).still)


def test_one_wrong_host_that_died_does_not_stop_the_verdicts(world, monkeypatch):
    """Killed with its clock ahead and a record of it missing, before the analysis started."""
    settings, steady = world.settings(control=None), [0]
    monkeypatch.setattr("analysis.workers.monotonic_ns", lambda: steady[0])
    world.traffic(40, 20, {"fp8": {}})
    world.store()
    world.heard(HOURS, HOURS, "dead", worker="w2", high_sequence=3)
    memory = Memory()
    for second in range(41, 401, 30):
        world.heard(second, second)
        steady[0] = second * S
        memory = look(world.client, settings, memory, T0 + second * S, whole=True)
        assert bool(memory.watermark_ns) == (second > 41 + 300)
    assert written(world.client, settings, "fp8").part["pairs"]["complete"] == 800


def test_a_mark_of_before_is_not_waited_for():
    """One whose record never comes (a dead letter) is given up as ever, not in hours."""
    progress, closed = settle(Progress(), {"a": boot("a", BEFORE)}, {"a": Stored(9, BEFORE)}), []
    assert progress.marks
    for second in range(90):
        now = NOW + second * S
        told = replace(boot("a", now), high_sequence=11 + second)
        awaited = marks(progress, live([told], now))
        stored_now = {"a": Stored(awaited["a"].high_sequence - 1, now)}
        progress = settle(progress, awaited, stored_now)
        closed.append(watermark(progress, [told], stored_now, now, 1))
    assert closed[-1] == NOW + 88 * S


def test_what_is_under_way_is_not_gone_when_the_clock_is_set_forward():
    """A mark that is waited for since hours, by a clock that was set, is waited for since now."""
    mark = boot("a", NOW)
    progress = settle(Progress(reached={"a": 5}), {"a": mark}, {"a": Stored(4, NOW)})
    later = boot("a", BEFORE)
    awaited = marks(patient(progress), {"a": later})
    after = settle(patient(progress), awaited, {"a": Stored(4, NOW)})
    assert (after.missing, after.reached) == ({}, {"a": 5})
    assert settle(progress, {"a": later}, {"a": Stored(4, NOW)}).missing  # without that patience


def test_arrivals_of_the_future_without_a_record_hold_nothing():
    """A process that died in its first second, before the clock was set back."""
    told = boot("a", NOW)
    held = {"a": Stored(10, NOW), "b": Stored(3, BEFORE)}
    progress = settle(Progress(), marks(Progress(), live([told], NOW)), held)
    assert watermark(progress, [told], held, NOW, 1) is not None


def test_a_clock_that_is_set_is_seen_once():
    """Steps of more than seconds, in either direction; what slews, or is looked at late, is none."""
    wall, steady = [1000.0], [5.0]
    clock = WallClock(lambda: wall[0], lambda: steady[0])
    seen = []
    for by, later in ((0, 2), (HOURS, 2), (0, 600), (-HOURS, 2), (STEP_S / 2, 2), (0, 2)):
        steady[0] += later
        wall[0] += later + by
        seen.append(clock.set_by_s())
    assert seen == [0, HOURS, 0, -HOURS, 0, 0]


def test_the_service_is_patient_after_it(monkeypatch, capsys):
    """It says so, forgets since when it waits for what, and lets the proxies' next records come."""
    offset, memories, rests = [0.0], [], []
    real = time.time
    monkeypatch.setattr("analysis.clock.time.time", lambda: real() + offset[0])
    monkeypatch.setattr(
        WallClock.__init__, "__defaults__", (lambda: real() + offset[0], time.monotonic)
    )

    class Stop(threading.Event):
        def wait(self, timeout=None):
            rests.append(timeout)
            if len(rests) == 1:
                offset[0] = HOURS
            elif len(rests) == 3:
                self.set()
            return self.is_set()

    def looked(_client, _settings, memory, _now_ns, *, whole):
        memories.append(memory)
        waits = Progress({"a": boot("a", NOW)}, {"a": 1}, {"a": NOW}, {"a": 2})
        return replace(memory, progress=waits, ended=True)

    monkeypatch.setattr("analysis.looking.look", looked)
    monkeypatch.setattr("analysis.service.time.sleep", rests.append)
    with suppress(AttributeError):
        run(Settings("e", "c1", ("fp8",), {"fp8": "x"}), lambda: None, Stop())
    assert memories[1].progress == Progress(reached={"a": 1}, missing={"a": 2})
    assert rests[:2] == [2.0, 5.0]
    assert "the clock was set" in capsys.readouterr().out


PROMOTE = {"verdict": "promote", "reason": "", "waivers": {}}


@pytest.mark.parametrize(
    ("ahead_s", "verdict"), [(-10, "promote"), (30, "promote"), (HOURS, "hold")]
)
def test_a_verdict_of_the_future_promotes_nobody(ahead_s, verdict):
    """Whether it is seconds or hours old nobody knows; an analysis that runs judges it anew. So with
    `--max-age`, which a skew between two hosts does not disturb."""
    part = as_it_stands(PROMOTE, NOW + ahead_s * S, NOW)
    assert part["verdict"] == verdict
    tree = {"candidates": {"fp8": {**part, "verdict": "promote"}}}
    held = aged(tree, NOW / S, 300)["candidates"]["fp8"]
    assert held["verdict"] == verdict
    assert ("in the future" in held["reason"]) == (verdict == "hold")


def test_a_verdict_says_when_it_was_judged(world, monkeypatch):
    """By the clock as it is then: one that was written before the clock was set back is the older
    one, and the gate holds only until the next is written; another configuration's is not newest."""
    settings = world.settings(control=None)
    monkeypatch.setattr("analysis.answers.time.time_ns", lambda: T0 + 200 * S)
    world.traffic(40, 20, {"fp8": {}})
    world.store()
    world.heard(41, 41)
    ahead = T0 + HOURS * S
    other = replace(settings, config_hash="other", comparisons={"fp8": "another"})
    look(world.client, other, Memory(), ahead + 50 * S, whole=True)
    memory = look(world.client, settings, Memory(), ahead + 100 * S, whole=True)
    first = written(world.client, settings, "fp8")
    assert stored(world.client, settings)["candidates"]["fp8"]["judged_at"].startswith(
        "2026-09-21T17"
    )
    look(world.client, settings, memory, T0 + 150 * S)
    last = written(world.client, settings, "fp8")
    assert last.at_ns > first.at_ns
    assert last.judged_ns == T0 + 150 * S
    assert "judged_at" not in last.part
    assert elsewhere(world.client, settings, T0 + 151 * S) is None
    look(world.client, other, Memory(), T0 + 160 * S, whole=True)
    assert elsewhere(world.client, settings, T0 + 161 * S) is not None
    tree = stored(world.client, settings)
    assert tree["candidates"]["fp8"]["judged_at"] == "2026-09-21T14:15:50+00:00"
    assert gate(aged(tree, T0 / S + 160, 60)).line == gate(tree).line


def test_traffic_that_is_not_judged_is_noticed_after_it(world):
    """Windows that were built before the clock was set back do not hide what comes after."""
    settings = world.settings(control=None)
    world.traffic(40, 20, {"fp8": {}})
    world.traffic(40, 20, {"fp8": {}}, first=HOURS)
    world.store()
    world.heard(HOURS + 41, HOURS + 41)
    look(world.client, settings, Memory(), T0 + (HOURS + 42) * S, whole=True)
    world.traffic(10, 20, {"fp8": {}}, first=60)
    world.store()
    second = 71 + SLACK_S + 2
    world.heard(second, second, sequence=10**9)
    assert "behind" in (behind(world.client, settings, "fp8", T0 + second * S) or "")


def test_a_waiver_is_taken_back_after_it(world):
    """The newest word is the last one, whatever the clock says."""
    said = Waiver("tpot.mean", "ann", "known", T0 + 2 * HOURS * S)
    waive(world.client, world.experiment, "fp8", said, T0 + HOURS * S)
    assert active(world.client, world.experiment, "fp8", T0)
    waive(world.client, world.experiment, "fp8", replace(said, until_ns=T0 - S), T0)
    assert not active(world.client, world.experiment, "fp8", T0)


def test_an_analysis_that_starts_after_it_replaces_what_was_built(world):
    """What arrives late in a window of before counts at once, and is counted as late once."""
    settings = world.settings(control=None)
    world.traffic(10, 20, {"fp8": {}})
    world.traffic(10, 20, {"fp8": {}}, first=HOURS)
    world.store()
    world.heard(HOURS + 20, HOURS + 20)
    look(world.client, settings, Memory(), T0 + (HOURS + 21) * S)
    for n in range(20):
        for arm in ("primary", "fp8"):
            world.exchange(5.5, f"late-{n}", arm)
    world.store()
    world.heard(30, 30, sequence=10**9)
    memory = Memory()
    for second in (31, 33):
        memory = look(world.client, settings, memory, T0 + second * S, whole=second == 31)
    pairs = report(world.client, settings)["candidates"]["fp8"]["pairs"]
    assert (pairs["complete"], pairs["late"]) == (420, 40)


def test_a_comparison_that_begins_after_it_begins_now(world):
    """What was built ahead says nothing of the time: a policy that is changed begins its comparison
    by the clock as it is, whether the analysis ran on or was started again; and changed once more it
    leaves one behind that began ahead."""
    settings = world.settings(control=None)
    world.traffic(10, 20, {"fp8": {}}, first=HOURS)
    world.store()
    world.heard(HOURS + 11, HOURS + 11)
    ran = look(world.client, settings, Memory(), T0 + (HOURS + 12) * S)
    ahead = replace(settings, comparisons={"fp8": f"{world.experiment}-ahead"})
    ran = look(world.client, ahead, ran, T0 + (HOURS + 13) * S)
    assert _begun(world, ahead) == T0 + (HOURS + 13) * S
    for second, (name, memory) in enumerate((("ran on", ran), ("again", Memory())), start=30):
        world.heard(second, second, sequence=10**9 + second)
        changed = replace(settings, comparisons={"fp8": f"{world.experiment}-{name}"})
        look(world.client, changed, memory, T0 + second * S)
        assert _begun(world, changed) == T0 + second * S
    world.traffic(5, 20, {"fp8": {}}, seed=2, first=32)
    world.store()
    world.heard(38, 38, sequence=10**9 + 38)
    look(world.client, changed, Memory(), T0 + 39 * S, whole=True)
    assert written(world.client, changed, "fp8").part["pairs"]["complete"] == 100


def _begun(world, settings) -> int:
    """When the comparison begins."""
    return dict(started(world.client, settings, "fp8"))[settings.comparisons["fp8"]].start_ns


def test_a_warm_up_that_ended_before_it(world):
    """A machine that starts with a clock hours ahead: not all that arrives in those hours is warm-up,
    but as many pairs as ever; and the end stays where it is from then on."""
    settings = world.settings(control=None, policy={**POLICY, "warm_up": {"pairs": 50}})
    world.traffic(10, 20, {"fp8": {}}, first=HOURS)
    world.store()
    world.heard(HOURS + 11, HOURS + 11)
    memory = look(world.client, settings, Memory(), T0 + (HOURS + 12) * S)
    world.traffic(10, 20, {"fp8": {}}, seed=2)
    world.store()
    world.heard(11, 11, sequence=10**9)
    memory = look(world.client, settings, memory, T0 + 12 * S)
    assert written(world.client, settings, "fp8").part["pairs"]["complete"] == 150 + 150
    world.heard(13, None, sequence=10**9 + 1)
    look(world.client, settings, memory, T0 + 14 * S, whole=True)
    part = written(world.client, settings, "fp8").part
    assert (part["pairs"]["complete"], part["pairs"]["excluded"]) == (300, 100)


@pytest.mark.parametrize("by_s", [HOURS, -HOURS])
def test_nothing_is_lost_by_it(world, by_s):
    """One process serves on while its clock is set: what arrived before and after is pending, then
    captured, never lost, and every pair is judged once the windows have closed."""
    settings = world.settings(control=None)
    start = max(0, -by_s) + 10
    world.traffic(20, 20, {"fp8": {}}, first=start)
    world.store()
    for arm in ("primary", "fp8"):
        world.count(start + 20, arm, "sampled", 410)
    world.heard(start + 20, start + 19)
    memory = look(world.client, settings, Memory(), T0 + (start + 21) * S)
    after = start + 20 + by_s
    world.traffic(20, 20, {"fp8": {}}, seed=2, first=after)
    world.store()
    for arm in ("primary", "fp8"):
        world.count(after + 20, arm, "sampled", 810, sequence=10**9)
    world.heard(after + 20, after + 19, sequence=10**9)
    memory = look(world.client, settings, memory, T0 + (after + 21) * S)
    account = standing(world.client, settings, memory.progress, T0 + (after + 21) * S).accounts[
        "fp8"
    ]
    assert (account.captured, account.pending, account.lost) == (800, 10, 0)
    last = written(world.client, settings, "fp8")
    assert last.part["pairs"]["complete"] >= 700
    world.heard(after + 22, None, sequence=10**9 + 1)
    look(world.client, settings, memory, T0 + (after + 23) * S, whole=True)
    assert written(world.client, settings, "fp8").part["pairs"]["complete"] == 800
