"""What a verdict stands on: which pairs, why others are missing, over what time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analysis.answers import report, stored
from analysis.gate import gate
from analysis.look import Memory, look
from analysis.report import markdown

from .world import POLICY, T0

S = 10**9
RULES = {**POLICY, "metrics": {"tpot.mean": {"margin": "5%"}, "failure.rate": {"margin": "2pp"}}}


def judged(world, settings, until_s):
    world.store()
    world.heard(until_s, None)
    look(world.client, settings, Memory(), T0 + (until_s + 1) * S, whole=True)
    return report(world.client, settings)


def test_a_client_that_left_while_it_sent_is_no_gap(world):
    """No arm was asked: as client_cancelled it stays out of coverage, what was dropped does not."""
    settings = world.settings(control=None, policy=RULES)
    world.traffic(60, 20, {"fp8": {}})
    world.count(61, "fp8", "sampled", 1500)
    world.count(61, "fp8", "dropped", 280, reason="request_incomplete")
    world.count(61, "fp8", "dropped", 20, reason="primary_unreachable")
    tree = judged(world, settings, 61)
    assert tree["candidates"]["fp8"]["coverage"] == 1.0
    assert tree["verdict"] == "promote"
    assert tree["accounting"]["arms"]["fp8"]["dropped"]["request_incomplete"] == 280


def test_low_coverage_names_its_largest_reasons(world):
    """In the verdict's reason, in report.json and in the head of the report."""
    settings = world.settings(control=None, policy=RULES)
    world.traffic(60, 20, {"fp8": {}})
    for i in range(30):
        world.exchange(i, f"cut{i}", "primary")
        world.exchange(i, f"cut{i}", "fp8", outcome="truncated_capture", failure=None)
    for i in range(20):
        world.exchange(i, f"lone{i}", "fp8")
    world.count(61, "fp8", "sampled", 1200 + 50 + 90 + 5 + 40)
    world.count(61, "fp8", "dropped", 90, reason="concurrency")
    world.count(61, "fp8", "dropped", 5, reason="queue_full")
    world.count(61, "fp8", "dropped", 40, reason="request_incomplete")
    tree = judged(world, settings, 61)
    part = tree["candidates"]["fp8"]
    assert part["coverage"] == pytest.approx(1200 / 1345)
    assert part["gaps"] == {
        "concurrency": 90,
        "truncated_capture": 30,
        "the primary's answer is missing": 20,
        "queue_full": 5,
    }
    assert sum(part["gaps"].values()) == 1345 - 1200
    most = "concurrency 90, truncated_capture 30, the primary's answer is missing 20, …"
    assert part["reason"] == f"coverage is 89.2%, below 95%: {most}"
    assert gate(stored(world.client, settings)).line.endswith(most)
    assert "coverage 89.2% (unknown: concurrency 90, " in markdown(tree)


def test_a_later_comparison_counts_its_own_gaps(world):
    """What was dropped before it began is no gap of it, by reason either."""
    first = world.settings(control=None, policy=RULES)
    world.traffic(30, 20, {"fp8": {}})
    world.store()
    world.heard(31, 31)
    world.count(31, "fp8", "sampled", 700)
    world.count(31, "fp8", "dropped", 60, reason="request_incomplete")
    world.count(31, "fp8", "dropped", 40, reason="concurrency")
    look(world.client, first, Memory(), T0 + 31 * S, whole=True)
    later = replace(
        world.settings(control=None, policy={**RULES, "coverage": 0.9}),
        comparisons={"fp8": f"{world.experiment}-later"},
    )
    look(world.client, later, Memory(), T0 + 31 * S, whole=True)
    world.traffic(30, 20, {"fp8": {}}, first=32)
    world.count(63, "fp8", "sampled", 1400)
    world.count(63, "fp8", "dropped", 130, reason="request_incomplete")
    world.count(63, "fp8", "dropped", 70, reason="concurrency")
    part = judged(world, later, 63)["candidates"]["fp8"]
    assert part["pairs"]["complete"] == 600
    assert part["gaps"] == {"concurrency": 30}
    assert part["coverage"] == pytest.approx(600 / 630)


def test_pairs_without_the_controls_answer_are_told_apart(world):
    """The head says how many decide; each metric says its own number; the hold says the way out."""
    settings = world.settings(policy=RULES)
    for second in range(60):
        world.traffic(
            1, 20, {"fp8": {}, "control": {}} if second % 2 else {"fp8": {}}, first=second
        )
    world.count(61, "fp8", "sampled", 1200)
    world.count(61, "control", "sampled", 600)
    tree = judged(world, settings, 61)
    part = tree["candidates"]["fp8"]
    assert (part["pairs"]["complete"], part["pairs"]["controlled"]) == (1200, 600)
    assert part["metrics"]["tpot.mean"]["pairs"] == 600
    text = markdown(tree)
    assert "1,200 pairs judged: 600 against control, which decide; the other 600 have no" in text
    assert part["verdict"] == "hold"
    assert "give fp8 and control one `sample`, or state `replicas`" in part["reason"]
    by_replica = replace(settings, replicas={"fp8": 1, "control": 1})
    part = report(world.client, by_replica)["candidates"]["fp8"]
    assert "by replica: choose `sample` by the number of replicas" in part["reason"]


def test_min_span_is_of_what_was_judged(world):
    """An hour in which the arm got nothing, or of warm-up, is no time that it was seen in."""
    rules = {**RULES, "min_span": "1m", "warm_up": {"pairs": 20}}
    settings = world.settings(control=None, policy=rules)
    for i in range(20):
        world.exchange(i * 5, f"idle{i}", "primary")
        world.exchange(i * 5, f"idle{i}", "fp8")
    world.traffic(50, 20, {"fp8": {}}, first=100)
    part = judged(world, settings, 151)["candidates"]["fp8"]
    assert part["excluded"] == {"warm_up": 20}
    assert part["verdict"] == "hold"
    assert "min_span asks for 60 s of arrivals" in part["reason"]


def test_a_candidate_that_was_never_sent_anything_says_why(world):
    """Everything was dropped: the hold has the reason."""
    settings = world.settings(control=None, policy=RULES)
    world.traffic(30, 20, {})
    world.count(31, "fp8", "sampled", 600)
    world.count(31, "fp8", "dropped", 600, reason="switched_off")
    tree = judged(world, settings, 31)
    assert tree["verdict"] == "hold"
    assert tree["candidates"]["fp8"]["reason"] == (
        "no data yet; of what was sampled: switched_off 600"
    )


def test_a_control_without_any_answer_is_named(world):
    """Two arms that share no request: not a matter of waiting for blocks."""
    settings = world.settings(policy=RULES)
    world.traffic(30, 20, {"fp8": {}})
    tree = judged(world, settings, 31)
    reason = tree["candidates"]["fp8"]["reason"]
    assert (tree["verdict"], reason) == ("hold", "none of 600 pairs has an answer of control")


def test_what_the_pairs_of_a_metric_count(world):
    """Judged, answered by the control, defined on both sides, and in full blocks: to the pair."""
    settings = world.settings()
    world.traffic(10, 25, {"fp8": {}, "control": {}})
    world.traffic(1, 5, {"fp8": {}, "control": {}}, first=10)  # no full block
    rows = {(row["pair_id"], row["arm"]): row for row in world.pending_rows}
    for i in range(3):
        rows[f"p0-{i}", "fp8"]["tpot_ms"] = None
    for arm in ("fp8", "control"):
        rows["p1-0", arm] |= {"failure": 1, "outcome": "http_error"}
    for i in range(4):
        world.pending_rows.remove(rows[f"p2-{i}", "control"])
    world.store()
    world.heard(60, None)
    look(world.client, settings, Memory(), T0 + 120 * 10**9, whole=True)
    found = report(world.client, settings)
    part = found["candidates"]["fp8"]
    assert (part["pairs"]["complete"], part["pairs"]["controlled"]) == (255, 251)
    pairs = {name: part["metrics"][name]["pairs"] for name in ("failure.rate", "tpot.mean")}
    assert pairs == {"failure.rate": 246, "tpot.mean": 242}
    assert "pairs" in found["definitions"]


def test_what_the_control_lacks_is_a_gap_too(world):
    """Where the control drops what comes in every second second, a candidate that is bad in those
    alone is not promoted on the others: its coverage is whole, the control's is not."""
    settings = world.settings(policy=RULES)
    for second in range(0, 120, 2):
        both = {"fp8": {}, "control": {}}
        world.traffic(1, 22, both, seed=second + 1, first=second)
        world.traffic(1, 22, {"fp8": {"tpot": 1.5}}, seed=second + 2, first=second + 1)
    for arm in ("primary", "fp8", "control"):
        world.count(121, arm, "sampled", 2640)
    world.count(121, "control", "dropped", 1320, reason="concurrency")
    part = judged(world, settings, 121)["candidates"]["fp8"]
    assert part["coverage"] == 1.0
    assert part["metrics"]["tpot.mean"]["state"] == "pass"  # of what the control answered
    assert part["verdict"] == "hold"
    assert part["reason"] == "the control's coverage is 50.0%, below 95%: concurrency 1,320"


def test_a_metric_of_ones_own_holds_where_no_answer_has_it(world):
    """It belongs to files of pairs; a policy for both ends no look, and is no pass without data."""
    own = {"score.mean": {"margin": "5%", "direction": "higher", "family": "quality"}}
    rules = {**POLICY, "metrics": {"tpot.mean": {"margin": "5%"}, **own}}
    settings = world.settings(control=None, policy=rules)
    world.traffic(60, 22, {"fp8": {}})
    part = judged(world, settings, 61)["candidates"]["fp8"]
    assert part["verdict"] == "hold"
    assert part["reason"].startswith("undecided: score.mean (one's own metric: `shadow judge`")
    assert part["metrics"]["tpot.mean"]["state"] == "pass"


@pytest.mark.parametrize("control", [None, "control"])
def test_an_answer_without_a_word_differs_and_none_on_all_sides_tells_nothing(world, control):
    """A quarter of the candidate's answers are empty where the others spoke; of another quarter
    nobody said a word, of one more the control alone did: that is its mismatch."""
    rules = {**POLICY, "metrics": {"mismatch.rate": {"margin": "2pp"}}}
    settings = world.settings(control=control, policy=rules)
    said, nothing = {"text_hash": 1, "text_chars": 5}, {"text_hash": 9, "text_chars": 0}
    speak = [(said, said, said), (said, nothing, said), (nothing, nothing, nothing)]
    for i in range(1200):
        sides = (*speak, (nothing, nothing, said))[i % 4]
        for arm, facts in zip(("primary", "fp8", "control"), sides, strict=True):
            world.exchange(i / 20, f"p{i}", arm, **facts)
    metric = judged(world, settings, 61)["candidates"]["fp8"]["metrics"]["mismatch.rate"]
    compared = 900 if control else 600  # without a control nobody speaks in half of them
    assert (metric["pairs"], metric["candidate"]) == (compared, pytest.approx(300 / compared))
    assert metric["control"] == (pytest.approx(1 / 3) if control else None)


@pytest.mark.parametrize("control", [None, "control"])
@pytest.mark.parametrize(
    ("facts", "gated", "why"),
    [
        ({"token_source": "events", "tpot_ms": 400.0}, "tpot.mean", "token_source"),
        ({"tpot_ms": None}, "tpot.mean", "tpot_missing"),
        ({"ttft_any_ms": None}, "ttft_any.p50", "ttft_any_missing"),
        ({"text_hash": None}, "mismatch.rate", "text_missing"),
    ],
)
def test_what_half_the_answers_lack_passes_on_the_other_half_for_no_metric(
    world, control, facts, gated, why
):
    """What is missing may be what is bad: the metric stays open, and says of how many it knows."""
    rules = {**POLICY, "metrics": {gated: {"margin": "2pp" if "rate" in gated else "5%"}}}
    settings = world.settings(control=control, policy=rules)
    world.traffic(60, 22, {"fp8": {}} | ({control: {}} if control else {}))
    for row in world.pending_rows:
        row["token_source"] = "usage"
    for row in [row for row in world.pending_rows if row["arm"] == "fp8"][::2]:
        row.update(facts)
    part = judged(world, settings, 61)["candidates"]["fp8"]
    assert part["metrics"][gated]["state"] == "open"
    assert part["verdict"] == "hold"
    assert (
        part["reason"] == f"undecided: {gated} (known of 50.0% of the pairs, below 95%: {why} 660)"
    )


def test_failed_answers_lack_nothing(world):
    """They are in failure.rate, and their times are infinite: no metric is open for them."""
    failed = {"failure": 1, "outcome": "in_band_error", "tpot_ms": None, "ttft_any_ms": None}
    settings = world.settings(control=None, policy=RULES)
    world.traffic(60, 22, {"fp8": {}})
    for row in [row for row in world.pending_rows if row["arm"] == "fp8"][::2]:
        row.update(failed)
    part = judged(world, settings, 61)["candidates"]["fp8"]
    assert not any("known of" in one["reason"] for one in part["metrics"].values())
    assert not part["undefined"]
