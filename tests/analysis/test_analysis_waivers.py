"""A waiver takes one metric out of the verdict, is shown wherever the verdict is, and ends."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from analysis.accounting import Account
from analysis.answers import report, stored, waive
from analysis.counted import loads
from analysis.gate import gate
from analysis.look import Memory, look
from analysis.moments import shown
from analysis.queries import sql
from analysis.rejects import standing
from analysis.report import markdown
from analysis.waivers import Waiver, active, expired
from analysis.written import Rejected, write, written

from .world import POLICY, T0

S = 10**9
RULES = {**POLICY, "metrics": {"tpot.mean": {"margin": "5%"}, "mismatch.rate": {"margin": "2pp"}}}


@pytest.fixture
def rejected(world):
    """A comparison that was rejected for its tokens, and for nothing else."""
    settings = world.settings(policy=RULES)
    world.traffic(60, 22, {"fp8": {"tpot": 1.15}, "control": {}})
    world.store()
    world.heard(61, None)
    look(world.client, settings, Memory(), T0 + 62 * S, whole=True)
    assert gate(stored(world.client, settings)).code == 1
    return settings


def waiver(metric: str, seconds: float) -> Waiver:
    return Waiver(metric, "ann", "fixed next week", time.time_ns() + int(seconds * S))


def test_a_waived_reject_promotes_and_says_so(world, rejected):
    """The reject was for the waived metric alone: promote, with who and until when, everywhere."""
    judged = waive(world.client, rejected, "fp8", waiver("tpot.mean", 3600))
    assert judged.judgement.verdict == "promote"
    answer = gate(stored(world.client, rejected))
    assert answer.code == 0
    assert answer.line.startswith("fp8: promote (waived: tpot.mean by ann until 20")
    tree = report(world.client, rejected)
    part = tree["candidates"]["fp8"]
    assert part["waivers"]["tpot.mean"]["reason"] == "fixed next week"
    assert part["metrics"]["tpot.mean"]["state"] == "not_gated"
    assert part["metrics"]["tpot.mean"]["margin"] is None
    assert "**Waived**: tpot.mean, by ann" in markdown(tree)
    # it shares the reject level no longer: one metric is left
    assert "3.04%" not in part["metrics"]["mismatch.rate"]["sentence"]


def test_a_waiver_for_another_metric_undoes_no_reject(world, rejected):
    """What was rejected for something else stays rejected."""
    assert (
        waive(world.client, rejected, "fp8", waiver("mismatch.rate", 3600)).judgement.verdict
        == "reject"
    )


def test_a_waiver_ends(world, rejected, monkeypatch):
    """Once it has ended the gate holds, and the next judgement is the reject that it was."""
    waive(world.client, rejected, "fp8", waiver("tpot.mean", 3600))
    assert stored(world.client, rejected)["candidates"]["fp8"]["verdict"] == "promote"
    later_ns = time.time_ns() + 3601 * S
    monkeypatch.setattr("analysis.answers.time.time_ns", lambda: later_ns)
    answer = gate(stored(world.client, rejected))
    assert (answer.code, "waiver has ended" in answer.line) == (3, True)
    assert report(world.client, rejected)["verdict"] == "reject"


def test_the_newest_waiver_counts(world):
    """A later one with an end that has passed takes it back; others stay."""
    settings = world.settings(policy=RULES)
    for metric, seconds in (("tpot.mean", 60), ("mismatch.rate", 60), ("tpot.mean", -1)):
        waive(world.client, settings, "fp8", waiver(metric, seconds))
    held = active(world.client, world.experiment, "fp8", time.time_ns())
    assert list(held) == ["mismatch.rate"]
    assert active(world.client, world.experiment, "int4", time.time_ns()) == {}


def test_expired_reads_what_the_report_holds():
    """By the end that stands in the written part; a part of before waivers has none."""
    part = {"waivers": {"tpot.mean": waiver("tpot.mean", 60).part()}}
    assert expired(part, time.time_ns()) == []
    assert expired(part, time.time_ns() + 61 * S) == ["tpot.mean"]
    assert expired({}, time.time_ns()) == []


def test_loads_by_arm_and_by_replica(world):
    """From the accounting: the candidate's rate, the control's, and all that the primary served."""
    settings = world.settings()
    accounts = {
        "fp8": Account(sampled=250, skipped={"not_sampled": 750}),
        "control": Account(sampled=125, skipped={"not_sampled": 875}),
    }
    assert loads(settings, "fp8", accounts, 5.0) == {"fp8": 5, "primary": 20, "control": 2.5}
    stated = replace(settings, replicas={"primary": 4, "fp8": 1})
    assert loads(stated, "fp8", accounts, 5.0)["primary"] == 5
    assert loads(settings, "fp8", {}, 5.0) == {}


def test_a_load_that_differs_holds(world):
    """The control got half of the candidate's requests: neither promoted nor rejected for latency."""
    settings = world.settings(policy=RULES)
    world.traffic(60, 22, {"fp8": {"tpot": 1.15}, "control": {}})
    world.store()
    world.heard(61, None)
    world.count(61, "fp8", "sampled", 1320)
    world.count(61, "control", "sampled", 2640)
    look(world.client, settings, Memory(), T0 + 62 * S, whole=True)
    answer = gate(stored(world.client, settings))
    assert answer.code == 3
    assert "load mismatch: fp8 saw 22 requests/s, control 44" in answer.line


@pytest.mark.parametrize(("control", "undefined"), [(None, True), ("control", False)])
def test_earlier_turns_are_not_comparable_without_a_control(world, control, undefined):
    """Their time to the first token is undefined, counted, and said; with a control it is judged."""
    rules = {**POLICY, "metrics": {"ttft_any.p50": {"margin": "5%"}}}
    settings = world.settings(control=control, policy=rules)
    for i in range(60):
        for arm in ("primary", "fp8", "control"):
            world.exchange(i / 2, f"p{i}", arm, turns=5)
    world.store()
    world.heard(61, None)
    look(world.client, settings, Memory(), T0 + 62 * S, whole=True)
    part = report(world.client, settings)["candidates"]["fp8"]
    assert part["undefined"] == ({"multi_turn": 60} if undefined else {})
    why = part["metrics"]["ttft_any.p50"]["reason"]
    assert ("not comparable without a control: 60 requests" in why) == undefined
    assert (part["metrics"]["ttft_any.p50"]["pairs"] == 0) == undefined


@pytest.mark.parametrize("kept", ["tpot.mean", None])
def test_a_waiver_of_the_first_reject_lifts_no_later_one(world, rejected, kept):
    """What failed for the first time later is no less rejected, whether the first reject stood then
    or was waived: it stays when both are back within their margins."""
    since_ns = later_reject(world, rejected, "mismatch.rate", also=kept)
    judged = waive(world.client, rejected, "fp8", waiver("tpot.mean", 3600))
    assert judged.judgement.verdict == "reject"
    assert judged.judgement.reason == f"when it was rejected ({shown(since_ns)}): it differed"
    assert judged.part["rejected_since"] == shown(since_ns)
    both = waive(world.client, rejected, "fp8", waiver("mismatch.rate", 3600)).judgement
    assert (both.verdict, "what the policy gates is waived" in both.reason) == ("hold", True)


def later_reject(world, settings, name: str, also: str | None) -> int:
    """As a look would have written it when `name` was beyond its margin: at which instant."""
    now_ns = time.time_ns()
    last = written(world.client, settings, "fp8")
    metrics = {
        one: {**figures, "state": "fail" if one in {name, also} else "pass"}
        for one, figures in last.part["metrics"].items()
    }
    metrics[name]["sentence"] = "it differed"
    judged = SimpleNamespace(
        judgement=SimpleNamespace(verdict="reject", reason="when it was rejected: slow tokens"),
        part={**last.part, "metrics": metrics},
    )
    write(world.client, settings, "fp8", judged, now_ns)
    return now_ns


def test_where_a_precondition_was_broken_failures_alone_were_rejected(world, rejected):
    """Latency that lay beyond its margin meanwhile was held: it is no reject of its own."""
    rows = [
        (["failure.rate"], "failures", "{}", 5),
        ([], "when it was rejected: failures", "{}", 6),
    ]
    assert standing(rows, {"failure.rate"}) is None
    assert standing(rows, {"tpot.mean"}) == Rejected("failures", 5)
    assert standing([([], "of an older version", "{}", 5)], {"tpot.mean"}).since_ns == 5
    found = world.client.query(sql("rejects"), parameters=rejected.scope("fp8")).result_rows
    assert [failed for failed, *_ in found] == [["tpot.mean"]]
    last = written(world.client, rejected, "fp8")
    metrics = {
        "failure.rate": {"state": "fail", "critical": True},
        "mismatch.rate": {"state": "fail", "critical": True},
        "tpot.mean": {"state": "fail", "critical": False},
    }
    judged = SimpleNamespace(
        judgement=SimpleNamespace(verdict="reject", reason="failures"),
        part={**last.part, "metrics": metrics, "preconditions": ["coverage is low"]},
    )
    write(world.client, rejected, "fp8", judged, time.time_ns())
    found = world.client.query(sql("rejects"), parameters=rejected.scope("fp8")).result_rows
    assert [failed for failed, *_ in found] == [["tpot.mean"], ["failure.rate"]]
