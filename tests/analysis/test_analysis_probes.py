"""Greedy probes: compared with the control's, for quality alone, and counted where they cannot be."""

from __future__ import annotations

import math

from analysis.answers import report
from analysis.evidence import Contrast, samples
from analysis.look import Memory, look
from analysis.policy import Policy
from analysis.report import markdown

from .world import POLICY, T0

S = 10**9
GREEDY = {"probe": "greedy", "weight": 10.0}


def run(world, settings, now_s=100):
    return look(world.client, settings, Memory(), T0 + now_s * S, whole=True)


def asked(world, pair, second, *, fp8=(), control=()):
    """A request of all arms, and its probes where facts are given for them."""
    rows = len(world.pending_rows)
    for arm in ("primary", "fp8", "control"):
        world.exchange(second, pair, arm)
    for arm, facts in (("fp8", fp8), ("control", control)):
        if facts != ():
            world.exchange(second, pair, arm, **GREEDY, **dict(facts))
    for row in world.pending_rows[rows:]:
        row.setdefault("finish_reason", "")


def rows(world, columns, table, where="1"):
    return world.client.query(
        f"SELECT {columns} FROM {table} FINAL WHERE experiment = '{world.experiment}' AND {where}"
    ).result_rows


def test_a_probe_is_paired_with_the_control_s(world):
    """Its text against the control's probe, not against anybody's sampled text; it has no time."""
    asked(world, "p1", 0.1, fp8={"text_hash": 7}, control={"text_hash": 7, "e2e_ms": 9.0})
    asked(world, "p2", 0.2, fp8={"text_hash": 7}, control={"text_hash": 8, "output_tokens": 22})
    world.store()
    world.heard(2, None)
    run(world, world.settings())
    columns = "pair_id, arm, reference_arm, mismatch, reference_mismatch, e2e_ms, tpot_ms, weight"
    assert sorted(rows(world, columns, "pairs", "probe = 'greedy'")) == [
        ("p1", "fp8", "control", 0, 0, None, None, 10.0),
        ("p2", "fp8", "control", 1, 0, None, None, 10.0),
    ]
    assert rows(world, "count()", "pairs", "probe = 'none'") == [(6,)]


def test_probes_feed_quality_alone(world):
    """Slow, failing, differing probes: no figure but their own knows of them."""
    settings = world.settings()
    blocks = Policy.model_validate({"blocks": {"by": "count", "pairs": 1}}).blocks
    bad = {"tpot_ms": 900.0, "text_hash": 7, "output_tokens": 22, "finish_reason": "length"}
    for i in range(10):
        failed = {"failure": 1, "outcome": "http_error"} if i == 0 else {}
        asked(world, f"p{i}", i / 10, fp8={**bad, **failed}, control={"finish_reason": "stop"})
    world.store()
    world.heard(2, None)
    run(world, settings)
    contrast = Contrast(world.experiment, settings.comparisons["fp8"], "fp8", "control")
    names = [
        "tpot.mean", "e2e.p50", "failure.rate", "mismatch.rate", "output_tokens.ratio",
        "probe_mismatch.rate", "probe_cut_at_length.rate", "probe_output_tokens.ratio",
    ]  # fmt: skip
    found = samples(world.client, contrast, names, blocks)
    assert [(found[name].pairs, round(found[name].estimate, 9)) for name in names[:5]] == [
        (10, 0)
    ] * 5
    assert [(found[n].pairs, found[n].value, found[n].reference_value) for n in names[5:]] == [
        (9, 1, 0), (9, 1, 0), (9, 22, 11),
    ]  # fmt: skip
    assert math.isclose(found["probe_output_tokens.ratio"].estimate, math.log(2))


def test_probes_are_in_the_report_and_without_a_control_s_counted(world):
    """How many were compared and why others were not; their metrics; coverage has every copy twice or never."""
    for i in range(40):
        greedy = {"text_hash": 1 + (i % 4 == 0)}
        asked(world, f"p{i}", i / 10, fp8=greedy, control={} if i < 36 else ())
    world.store()
    world.heard(5, None)
    world.count(5, "fp8", "sampled", 80)
    settings = world.settings()
    run(world, settings)
    told = report(world.client, settings)
    part = told["candidates"]["fp8"]
    assert part["probes"] == {"complete": 36, "excluded": {"no_control": 4}}
    assert (part["pairs"]["sampled"], part["pairs"]["complete"], part["excluded"]) == (80, 40, {})
    assert part["coverage"] == 1.0
    figures = part["metrics"]["probe_mismatch.rate"]
    assert (figures["reference"], figures["state"], figures["family"]) == (
        "control", "not_gated", "quality",
    )  # fmt: skip
    assert "Greedy probes compared with the control's: 36; not compared: no_control 4." in markdown(
        told
    )
    assert any("no noise floor" in warning for warning in part["warnings"])


def test_without_probes_nothing_is_said_of_them(world):
    """No metric, no count, no note; a policy that gates them holds and says what it takes."""
    world.traffic(3, 25, {"fp8": {}, "control": {}})
    world.store()
    world.heard(4, None)
    settings = world.settings()
    run(world, settings)
    told = report(world.client, settings)
    part = told["candidates"]["fp8"]
    assert part["probes"] == {"complete": 0, "excluded": {}}
    assert not any("probe" in name for name in part["metrics"])
    assert "Greedy probes compared" not in markdown(told)
    gating = world.settings(
        policy={**POLICY, "metrics": {"probe_mismatch.rate": {"margin": "2pp"}}}
    )
    part = report(world.client, gating)["candidates"]["fp8"]
    reading = part["metrics"]["probe_mismatch.rate"]
    assert (part["verdict"], reading["state"]) == ("hold", "open")
    assert reading["reason"].startswith("no greedy probe was compared: it takes `greedy_probe`")


def test_a_gated_probe_metric_decides(world):
    """Where the policy lists it, texts that differ at temperature 0 reject; segments leave it alone."""
    for i in range(1500):
        asked(world, f"p{i}", i / 25, fp8={"text_hash": 1 + (i % 3 == 0)}, control={})
    world.store()
    world.heard(90, None)
    gated = {"probe_mismatch.rate": {"margin": "2pp"}, "mismatch.rate": {"margin": "2pp"}}
    settings = world.settings(policy={**POLICY, "metrics": gated})
    run(world, settings)
    part = report(world.client, settings)["candidates"]["fp8"]
    assert part["verdict"] == "reject"
    assert part["metrics"]["probe_mismatch.rate"]["state"] == "fail"
    assert part["metrics"]["mismatch.rate"]["state"] != "fail"
    assert "probe" not in str(part.get("segments"))


def test_what_excludes_a_probe(world):
    """Its own reasons; a failed primary is none, and the control's own probes are pairs of nobody."""
    world.exchange(0.1, "p1", "primary", failure=1, outcome="http_error")
    for pair, fp8, control in (
        ("p1", {}, {}),
        ("p2", {"transport": "client_disconnected", "failure": None}, {}),
        ("p3", {}, {"outcome": "truncated_capture", "failure": None}),
        ("p4", {}, {"transport": "cut_by_drain"}),
        ("p5", {"failure": None, "outcome": "a word of tomorrow"}, {}),
        ("p6", {"mirroring": "after"}, {}),
    ):
        world.exchange(0.1, pair, "fp8", **GREEDY, **{"mirroring": "on", **fp8})
        world.exchange(0.1, pair, "control", **GREEDY, **{"mirroring": "on", **control})
    for row in world.pending_rows:
        row.setdefault("mirroring", "on")
    world.store()
    world.heard(2, None)
    run(world, world.settings())
    assert sorted(rows(world, "pair_id, arm, excluded", "pairs")) == [
        ("p1", "fp8", ""),
        ("p2", "fp8", "client_cancelled"),
        ("p3", "fp8", "truncated_capture"),
        ("p4", "fp8", "cut_by_drain"),
        ("p5", "fp8", "unknown_outcome"),
        ("p6", "fp8", "after_window"),
    ]
