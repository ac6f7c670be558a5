"""A side that answers nothing is named before any other reason, during the warm-up too."""

from __future__ import annotations

from analysis.answers import report
from analysis.case import Evidence
from analysis.gate import gate
from analysis.judge import judge
from analysis.look import Memory, look
from analysis.policy import Policy
from analysis.report import markdown

from .world import POLICY, T0

DEAD = {"failure": 1, "outcome": "no_tokens", "transport": "connect_failed", "status": None}
HELD = {**DEAD, "transport": "breaker_open"}
BROKEN = {"failure": 1, "outcome": "http_error", "status": 404}
SLOW = {"failure": None, "outcome": "client_disconnected"}
WARM = {**POLICY, "warm_up": {"pairs": 200}}


def judged(world, fp8: list[dict], control: list[dict] | None = None, primary=(), policy=None):
    """The candidate's part of the report, its gate's answer, and the Markdown."""
    settings = world.settings(control=None if control is None else "control", policy=policy)
    for i, facts in enumerate(fp8):
        world.exchange(i / 10, f"p{i}", "primary", **(primary[i] if i < len(primary) else {}))
        world.exchange(i / 10, f"p{i}", "fp8", **facts)
        if control is not None:
            world.exchange(i / 10, f"p{i}", "control", **control[i])
    rows = list(world.pending_rows)
    world.store()
    world.store(rows[-4:])  # redelivered
    world.heard(60, None)
    look(world.client, settings, Memory(), T0 + 120 * 10**9, whole=True)
    found = report(world.client, settings)
    return found["candidates"]["fp8"], gate(found), markdown(found)


def test_a_dead_candidate_is_named_first_during_the_warm_up(world):
    """The gate's line and the report's head begin with it; the gate holds as it did."""
    part, answer, text = judged(world, [DEAD] * 92, policy=WARM)
    said = "fp8 answered none of its newest 92 requests (connect_failed)"
    assert part["reason"] == f"{said}; no data yet: warm-up, 92 of 200 pairs"
    assert (answer.code, answer.line) == (3, f"fp8: hold: {part['reason']}")
    assert f"## fp8: HOLD\n\n{said};" in text


def test_what_the_breaker_held_back_comes_behind_the_cause(world):
    """Only since the last good answer; a request that its client left says nothing."""
    part, _, _ = judged(world, [{}] * 20 + [DEAD] * 5 + [HELD] * 30)
    said = "fp8 answered none of its newest 35 requests (connect_failed: 5, breaker_open: 30); "
    assert part["reason"].startswith(said)


def test_a_wrong_service_at_the_address(world):
    """It answers, with nothing but errors; what the primary failed too is not held against it."""
    part, _, _ = judged(world, [BROKEN] * 40, primary=[BROKEN] * 10)
    assert part["reason"].startswith("fp8 failed all of its newest 30 requests (http_error 404); ")


def test_a_dead_control(world):
    """The candidate is well: the control is named."""
    part, _, _ = judged(world, [{}] * 40, control=[DEAD] * 40)
    assert part["reason"].startswith("the control answered none of its newest 40 requests (")


def test_nothing_is_said_of_a_few_failures_or_of_one_that_came_back(world):
    """Nine in a row, and forty before a good one; an answer that a client left is one, too."""
    for facts in ([{}] * 40 + [DEAD] * 9, [DEAD] * 40 + [{}], [DEAD] * 40 + [SLOW]):
        world.experiment += "x"
        part, _, _ = judged(world, facts)
        assert "newest" not in part["reason"]


def test_a_reject_keeps_its_reason_and_has_it_as_a_note():
    """A stored reject's reason is compared with the next one: it is a note there."""
    line = "fp8 answered none of its newest 92 requests (connect_failed)"
    gone = Evidence("fp8", "primary", {}, rejected="it was slow", silent=(line,))
    found = judge(Policy(), gone)
    assert (found.verdict, found.reason) == ("reject", "when it was rejected: it was slow")
    assert found.warnings[0] == line
    held = judge(Policy(), Evidence("fp8", "primary", {}, silent=(line,)))
    assert held.reason == f"{line}; no data yet"
    assert line not in held.warnings
