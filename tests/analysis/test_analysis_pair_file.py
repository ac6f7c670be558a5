"""`shadow judge` on a file of pairs: the store's judge, and every rule of the format."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.pair_file.judging import judge_file, known
from analysis.pair_file.reading import Malformed, read
from analysis.policy import Policy
from analysis.report import markdown
from shadow.cli.commands import run

from .pair_lines import POLICY, lines, text


def policy(**metrics: dict) -> Policy:
    gated = metrics or {"tpot.mean": {"margin": "5%"}}
    return Policy.model_validate({**POLICY, "metrics": gated})


def judged(trees: list[dict], rules: Policy | None = None) -> dict:
    rules = rules or policy()
    file = read(text(trees).encode().splitlines(), known(rules))
    tree = judge_file(file, rules, "file")
    json.dumps(tree, allow_nan=False)
    return tree


def part(trees: list[dict], rules: Policy | None = None) -> dict:
    return judged(trees, rules)["candidates"]["fp8"]


def command(tmp_path, capsys, trees: list[dict] | str, *words: str, rules: dict | None = None):
    """Run it; its status, stdout and stderr."""
    (tmp_path / "pairs.jsonl").write_text(trees if isinstance(trees, str) else text(trees))
    plan = rules or {**POLICY, "metrics": {"tpot.mean": {"margin": "5%"}}}
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(plan))
    status = run(
        ["judge", str(tmp_path / "pairs.jsonl"), "--policy", str(tmp_path / "policy.yaml"), *words]
    )
    return status, *capsys.readouterr()


@pytest.mark.parametrize(
    ("trees", "status", "word"),
    [
        (lines(), 0, "promote"),
        (lines(slower=1.15), 1, "reject"),
        (lines(60, slower=1.15), 3, "hold"),
        (lines(slower=1.15, control=False), 1, "reject"),
    ],
)
def test_it_exits_as_the_gate(tmp_path, capsys, trees, status, word):
    """0, 1, 3 with the verdict's line first; JSON is report.json with the verdict on top."""
    found, out, _ = command(tmp_path, capsys, trees)
    assert found == status
    assert out.startswith(f"fp8: {word}: ")
    found, out, _ = command(tmp_path, capsys, trees, "--format", "json")
    tree = json.loads(out)
    assert (found, tree["verdict"]) == (status, word)
    assert tree["candidates"]["fp8"]["metrics"]["tpot.mean"]["sentence"]


def test_it_judges_as_arrays_do():
    """Delta and interval are those of the same pairs judged as arrays, block by block."""
    from .arrays import mean_of

    trees = lines(slower=1.15)
    x, y = np.array([[tree["tpot_ms"][side] for tree in trees] for side in (1, 2)])
    sample = mean_of(x, y, 20)
    figures = part(trees)["metrics"]["tpot.mean"]
    assert figures["delta"] == pytest.approx(math.expm1(sample.estimate), rel=1e-9)
    assert figures["effective_blocks"] == pytest.approx(sample.spread.effective)
    assert (figures["pairs"], figures["blocks"], figures["reference"]) == (1200, 60, "control")


def test_the_order_of_lines_is_nothing():
    """Arrival counts; a pair_id that comes again is left out, and counted."""
    trees = lines(slower=1.04)
    shuffled = [trees[i] for i in np.random.default_rng(5).permutation(len(trees))]
    assert part(shuffled) == part(trees)
    again = part([*trees, *trees[:7]])
    assert again["excluded"] == {"repeated": 7}
    assert again["metrics"] == part(trees)["metrics"]


def test_nothing_but_errors_rejects():
    """Null with ok=false is infinite: the times are unknown, and the failures reject."""
    rules = policy(**{"failure.rate": {"margin": "0.5pp"}, "tpot.p95": {"margin": "5%"}})
    found = part(lines(failures=1.0), rules)
    assert found["verdict"] == "reject"
    assert "failure.rate" in found["reason"]
    assert found["metrics"]["tpot.p95"]["state"] == "open"


def test_a_failed_answer_is_slow_also_where_it_has_a_time():
    """An error that returns fast is not fast."""
    fast = lines(failures=0.2)
    for tree in fast:
        tree["tpot_ms"][1] = tree["tpot_ms"][1] or 0.001
    assert part(fast)["metrics"]["tpot.mean"] == part(lines(failures=0.2))["metrics"]["tpot.mean"]


def test_undefined_is_left_out():
    """Null with ok=true: neither fast nor slow; nothing but that is no data, and never a pass."""
    trees = lines()
    for tree in trees[::2]:
        tree["tpot_ms"][1] = None
    assert part(trees)["metrics"]["tpot.mean"]["pairs"] == 600
    for tree in trees:
        tree["tpot_ms"][1] = None
    found = part(trees)
    assert found["verdict"] == "hold"
    assert found["reason"] == "no gated metric fills a block yet: 1,200 pairs so far"


def test_failures_on_both_sides_are_no_difference():
    """A primary that fails as often as the candidate: 2 % each do not reject at half a point."""
    trees = lines(6000, control=False)
    rng = np.random.default_rng(9)
    for tree in trees:
        tree["ok"] = [bool(rng.random() >= 0.02), bool(rng.random() >= 0.02), None]
    figures = part(trees, policy(**{"failure.rate": {"margin": "0.5pp"}}))["metrics"]
    assert abs(figures["failure.rate"]["delta"]) < 0.01
    assert figures["failure.rate"]["state"] != "fail"


def test_what_the_file_does_not_measure_is_not_gated_and_named():
    """The default metrics on a file with tpot and ok alone."""
    rules = Policy.model_validate(POLICY)
    found = part(lines(4000), rules)
    assert found["metrics"]["e2e.p95"]["state"] == "not_gated"
    assert any("e2e.p95" in note and "not gated" in note for note in found["warnings"])
    assert found["verdict"] == "promote"
    bare = [{key: tree[key] for key in ("pair_id", "at", "candidate")} for tree in lines(50)]
    assert part(bare, rules)["reason"].startswith("no metric is gated: nothing measured e2e.p95")


def test_tokens_a_second_by_sums_or_by_logs():
    """A ratio of sums where tokens and decode time are there, else the mean log-ratio; it says which."""
    rules = policy(**{"tokens_per_s.ratio": {"margin": "5%"}})
    sums = lines(output_tokens=[101, 101, 101], decode_ms=[2000, 2500, 2000])
    found = part(sums, rules)
    assert found["metrics"]["tokens_per_s.ratio"]["delta"] == pytest.approx(-0.2)
    assert any("ratio of sums" in note for note in found["warnings"])
    logs = lines(tokens_per_s=[50, 40, 50])
    found = part(logs, rules)
    assert found["metrics"]["tokens_per_s.ratio"]["delta"] == pytest.approx(-0.2)
    assert found["verdict"] == "reject"
    assert any("mean paired log-ratio" in note for note in found["warnings"])


def test_the_tap_gives_coverage():
    """Without it no floor was asked for, and the verdict says so; a gap holds with its odds."""
    found = part(lines())
    assert (found["coverage"], found["verdict"]) == (None, "promote")
    (said,) = [note for note in found["warnings"] if "coverage is unknown" in note]
    assert "about the pairs that are there, and not about others" in said
    whole = part([{"tap": {"expected": 1200, "received": 1200}}, *lines()])
    assert (whole["coverage"], whole["verdict"]) == (1.0, "promote")
    half = part([{"tap": {"expected": 2400, "received": 1200}}, *lines(slower=1.15)])
    assert (half["coverage"], half["verdict"]) == (0.5, "hold")
    assert "coverage is 50.0%" in half["reason"]
    assert "tap integrity: 50.0% fewer requests came by than expected" in half["reason"]
    cut = part([{"tap": {"expected": 2400, "received": 2400}}, *lines()])
    assert (cut["coverage"], cut["verdict"]) == (0.5, "hold")
    assert cut["reason"] == "coverage is 50.0%, below 95%: no_line 1,200"


@pytest.mark.parametrize(("expected", "received"), [(10, 10), (1200, 900), (5, 900)])
def test_a_tap_line_that_the_file_contradicts_holds(expected, received):
    """More pairs than requests came by: said as what it is, not as a coverage of nothing."""
    found = part([{"tap": {"expected": expected, "received": received}}, *lines()])
    assert (found["verdict"], found["coverage"]) == ("hold", 1.0)
    said = f"tap integrity: the tap line says that {received} requests came by, and there are 1,200"
    assert found["reason"] == f"{said} pairs"


def test_fewer_expected_than_came_by_is_a_mismatch():
    """It is told as more requests than expected, with the odds, and coverage is whole."""
    found = part([{"tap": {"expected": 600, "received": 1200}}, *lines()])
    assert (found["verdict"], found["coverage"]) == ("hold", 1.0)
    assert "tap integrity: 100.0% more requests came by than expected" in found["reason"]


def test_the_documented_example_is_one(tmp_path, capsys):
    """docs/judge.md's lines, as shown, are read and judged."""
    page = (Path(__file__).parents[2] / "docs/judge.md").read_text("utf-8")
    (shown,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    status, out, err = command(tmp_path, capsys, shown)
    assert (status, err) == (3, "")
    assert out.startswith("fp8: hold: no gated metric fills a block yet: 2 pairs so far")


def test_pairs_with_the_controls_answer_are_told_apart():
    """Metrics are judged on those that have it; the head says how many."""
    trees = lines()
    for tree in trees[::2]:
        for key in ("tpot_ms", "ok", "mismatch"):
            tree[key][2] = None
    tree = judged(trees)
    found = tree["candidates"]["fp8"]
    assert (found["pairs"]["complete"], found["pairs"]["controlled"]) == (1200, 600)
    assert found["metrics"]["tpot.mean"]["pairs"] == 600
    assert "1,200 pairs judged: 600 against control, which decide" in markdown(tree)


def test_excess_over_the_control_and_its_lack():
    """Mismatch is judged as excess where there is a control, else as it is, and that is said."""
    rules = policy(**{"mismatch.rate": {"margin": "2pp"}})
    trees = lines(3000, mismatch=0.1)
    for tree, other in zip(trees, lines(3000, seed=8, mismatch=0.1), strict=True):
        tree["mismatch"][2] = other["mismatch"][1]
    assert abs(part(trees, rules)["metrics"]["mismatch.rate"]["delta"]) < 0.02
    alone = part(lines(3000, mismatch=0.1, control=False), rules)
    assert (alone["verdict"], alone["metrics"]["mismatch.rate"]["reference"]) == (
        "reject",
        "primary",
    )
    assert sum("no control arm" in note for note in alone["warnings"]) == 2


def test_a_biased_test_bed_holds():
    """A control that is 8 % slower than the primary it copies."""
    trees = lines(3000)
    for tree in trees:
        tree["tpot_ms"][2] *= 1.08
    found = part(trees)
    assert found["verdict"] == "hold"
    assert "test bed is biased" in found["reason"]


def test_several_candidates_need_a_name(tmp_path, capsys):
    """2 without one, that one's verdict with it, 2 for an unknown one; no file's data hold."""
    trees = [*lines(), *lines(slower=1.2, candidate="int4")]
    status, _, err = command(tmp_path, capsys, trees)
    assert (status, "fp8, int4" in err) == (2, True)
    assert command(tmp_path, capsys, trees, "--candidate", "fp8")[0] == 0
    status, out, _ = command(tmp_path, capsys, trees, "--candidate", "int4", "--format", "json")
    assert (status, json.loads(out)["verdict"]) == (1, "reject")
    assert command(tmp_path, capsys, trees, "--candidate", "no")[0] == 2
    status, out, _ = command(tmp_path, capsys, "")
    assert (status, "no data yet" in out) == (3, True)
    status, out, _ = command(tmp_path, capsys, "", "--format", "json")
    assert (status, json.loads(out)["verdict"]) == (3, "hold")


GOOD = json.dumps(lines(1)[0])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "is no JSON"),
        ("[]", "is no JSON object"),
        (GOOD.replace('"fp8"', "7"), "candidate: must be stated"),
        (GOOD.replace('"pair_id"', '"id"'), "pair_id: must be stated"),
        (GOOD.replace('"at": 1796036480.0', '"at": null'), "at: must be stated"),
        (GOOD.replace('"weight": 1.0', '"weight": 0'), "weight: must be above 0"),
        (GOOD.replace('"weight": 1.0', '"weight": 1e300'), "and 1,000,000 at most"),
        (GOOD.replace('"weight": 1.0', '"weight": 1e-320'), "weight: must be above 0"),
        (GOOD.replace('"weight": 1.0', '"weight": 1.0, "e2e_ms": [1, 1e300, 1]'), "e2e_ms: wants va"),
        (GOOD.replace('"fp8"', r'"fp\u001b[31m8"'), "candidate: has characters that cannot"),
        (re.sub(r'"at": [0-9.]+', '"at": 1796036480123', GOOD), "milliseconds"),
        (GOOD.replace("[true, true, true]", "[true, true]"), "ok: wants three values"),
        (GOOD.replace("[true, true, true]", "[1, 1, 1]"), "ok: wants three values"),
        (GOOD.replace("[null, 0, 0]", "[null, 2, 0]"), "mismatch: wants three values"),
        (GOOD.replace("[null, 0, 0]", "[null, [], 0]"), "mismatch: wants three values"),
        (GOOD.replace('"tpot_ms": [', '"tpot_ms": [-1, 1, 1], "x": ['), "tpot_ms: wants three"),
        (GOOD.replace('"tpot_ms": [', '"tpot_ms": ["1", 1, 1], "x": ['), "tpot_ms: wants three"),
        (GOOD.replace('"tpot_ms": [', '"tpot_ms": [NaN, 1, 1], "x": ['), "is no JSON"),
        ('{"tap": {"expected": 5, "received": 5}}', "belongs into the first line"),
    ],
)  # fmt: skip
def test_a_malformed_line_is_an_error_with_its_number(tmp_path, capsys, line, said):
    """2, one line on stderr, nothing on stdout."""
    status, out, err = command(tmp_path, capsys, f"{GOOD}\n\n{line}\n")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "line 3: " in err
    assert said in err


def test_a_malformed_tap_line():
    """Two counts, or an error of line 1."""
    for tap in (
        {},
        5,
        {"expected": 1.5, "received": 1},
        {"expected": -1, "received": 1},
        {"expected": 10**18, "received": 10**18},
    ):
        with pytest.raises(Malformed, match="line 1: tap: "):
            read([json.dumps({"tap": tap}).encode()], {})


def test_unknown_keys_are_ignored():
    """At any depth, of any shape; a file may say more than is read."""
    more = lines(note={"a": [1]}, other=[1, 2], segment={"model": "m", "team": 7})
    assert part(more)["metrics"] == part(lines())["metrics"]


def test_one_s_own_share():
    """A rate of one's own: 0 or 1, or the line is malformed; 10 pp more of it fails its margin."""
    own = {"margin": "2pp", "direction": "lower", "family": "quality"}
    rules, trees = policy(**{"refusal.rate": own}), lines(2000)
    for i, tree in enumerate(trees):
        tree["refusal"] = [0, int(i % 10 == 0), 0]
    found = part(trees, rules)
    assert (found["verdict"], found["families"]["quality"]["state"]) == ("reject", "fail")
    assert found["metrics"]["refusal.rate"]["delta"] == pytest.approx(0.1)
    trees[4]["refusal"] = [0, 0.5, 0]
    with pytest.raises(Malformed, match="line 5: refusal: wants three values, each 0, 1 or null"):
        part(trees, rules)


def test_one_s_own_metric():
    """Direction and family of the policy; higher is better, 10 % less fails its quality."""
    own = {"margin": "5%", "direction": "higher", "family": "quality"}
    rng = np.random.default_rng(1)
    trees = lines()
    for tree in trees:
        tree["score"] = (np.exp(rng.normal(0, 0.1, 3)) * [1, 0.9, 1]).tolist()
    found = part(trees, policy(**{"score.mean": own}))
    assert found["verdict"] == "reject"
    assert found["families"]["quality"]["state"] == "fail"
    assert "less than control" in found["metrics"]["score.mean"]["sentence"]


@pytest.mark.parametrize(
    ("slower", "verdict", "why"),
    [(0.8, "promote", "within"), (1.0, "hold", "out of reach"), (0.95, "hold", "out of reach"),
     (1.15, "reject", "slower")],
)  # fmt: skip
def test_a_rollout_may_have_to_pay_for_itself(slower, verdict, why):
    """goal: improve 10%: it passes only beyond that; short of it holds, beyond the margin rejects."""
    rules = policy(**{"tpot.mean": {"margin": "5%", "goal": "improve 10%"}})
    found = part(lines(slower=slower), rules)
    assert (found["verdict"], why in found["reason"]) == (verdict, True)
    assert "the goal is -10.0 %" in found["metrics"]["tpot.mean"]["sentence"] or verdict == "reject"


def test_warm_up_and_blocks_by_time():
    """The first pairs are left out and counted; slices of arrival time are the blocks."""
    rules = Policy.model_validate(
        {"blocks": {"every": "1s", "min_pairs": 20, "planned": 50}, "min_span": "0s",
         "warm_up": {"pairs": 100}, "metrics": {"tpot.mean": {"margin": "5%"}}}
    )  # fmt: skip
    found = part(lines(), rules)
    assert found["excluded"] == {"warm_up": 100}
    assert found["metrics"]["tpot.mean"]["blocks"] == 49  # of 50 slices, the last one has ten pairs
    assert found["verdict"] == "promote"
    assert part(lines(), Policy.model_validate({**POLICY, "min_span": "1h"}))["verdict"] == "hold"


def test_weights_count():
    """Slow pairs with a weight of next to nothing do not slow the candidate."""
    trees = lines()
    for tree in trees[::2]:
        tree["tpot_ms"][1] *= 2
        tree["weight"] = 1e-6
    assert abs(part(trees)["metrics"]["tpot.mean"]["delta"]) < 0.02


TIMES = st.sampled_from([None, 0, 1e-300, 1, 19.9, 20, 2**63, 1e30])
OKS = st.sampled_from([True, True, True, False, None])
HOSTILE = st.fixed_dictionaries(
    {
        "at": st.sampled_from([0, 5, 5.0001, 4e9]) | st.floats(0, 4e9),
        "candidate": st.just("fp8"),
        "tpot_ms": st.lists(TIMES, min_size=3, max_size=3),
        "tokens_per_s": st.lists(TIMES, min_size=3, max_size=3),
        "ok": st.lists(OKS, min_size=3, max_size=3),
        "mismatch": st.lists(st.sampled_from([None, 0, 1]), min_size=3, max_size=3),
        "weight": st.sampled_from([1e-9, 1, 1, 1e6]),
        "segment": st.fixed_dictionaries(
            {
                "model": st.text(max_size=3),
                "prompt_tokens": st.sampled_from(["nan", "-1", 1e9, "x"]),
            }
        ),
    }
)


@settings(max_examples=25, deadline=None)
@given(st.lists(HOSTILE, min_size=1, max_size=12), st.integers(1, 40))
def test_whatever_the_figures_are_a_report_comes_of_it(rows, times):
    """Zeros, infinities of floats, nothing but failures, one instant: strict JSON, never a crash."""
    rules = policy(
        **{"tpot.mean": {"margin": "5%"}, "tpot.p95": {"margin": "5%"}, "failure.rate": {"margin": "1pp"},
           "tokens_per_s.ratio": {"margin": "5%"}, "mismatch.rate": {"margin": "1pp"}}
    )  # fmt: skip
    trees = [{**row, "pair_id": f"{n}-{i}"} for n in range(times) for i, row in enumerate(rows)]
    file = read([json.dumps(tree).encode() for tree in trees], known(rules))
    tree = judge_file(file, rules, "hostile")
    assert json.loads(json.dumps(tree, allow_nan=False))["verdict"] in {"promote", "hold", "reject"}
    assert markdown(tree)


def test_lines_without_the_control_hold_beyond_what_coverage_allows():
    """They are judged for nobody: a candidate that is slow there alone is not promoted."""
    trees = lines()
    for tree, slow in list(zip(trees, lines(slower=1.5, control=False), strict=True))[::2]:
        tree.update(slow)
    one = part(trees)
    assert one["metrics"]["tpot.mean"]["state"] == "pass"  # of the others
    assert one["verdict"] == "hold"
    assert one["reason"] == (
        "the control's coverage is 50.0%, below 95%: lines without the control's values 600"
    )
    few = lines()
    for tree, slow in list(zip(few, lines(control=False), strict=True))[::25]:
        tree.update(slow)
    assert part(few)["verdict"] == "promote"


@pytest.mark.parametrize("control", [True, False])
def test_a_metric_that_half_of_the_candidates_answers_lack_stays_open(control):
    """What it lacks may be what it is slow at; where it failed, or nobody knows, it lacks nothing."""
    trees = lines(control=control)
    for tree in trees[::2]:
        tree["tpot_ms"][1] = None
    one = part(trees)
    assert (one["verdict"], one["reason"]) == (
        "hold",
        "undecided: tpot.mean (known of 50.0% of the pairs, below 95%: tpot_missing 600)",
    )
    for tree in trees[::2]:
        tree["tpot_ms"] = [None, None, None]
    assert part(trees)["verdict"] == "promote"
