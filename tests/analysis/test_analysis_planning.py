"""A plan's numbers are the published ones, and what they promise is what the judge then needs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.stats import norm

from analysis.parity import OFF_PARITY, off_load, off_overlap, off_parity, overlap, parity
from analysis.planning import Stated, minutes, needs
from analysis.policy import Policy
from analysis.preconditions import SAME_LOAD
from analysis.statistics.planning import (
    least_pairs_of_share,
    mean_variance,
    multiplier,
    quantile_variance,
)
from shadow.cli.commands import run

from .arrays import mean_of

VECTOR = {
    vector["id"]: vector
    for vector in json.loads(Path(__file__).with_name("statistics.json").read_text())["vectors"]
}["V11_power_closed_form"]


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_variances_and_fixed_samples_against_the_vector(correlation):
    """V of each estimator, and the pairs that a single look would need."""
    expected = VECTOR["expected"][f"rho={correlation:g}"]
    found = {f"p{p}": quantile_variance(p / 100, 0.5, correlation) for p in (50, 95, 99)}
    found["mean_logratio"] = mean_variance(0.5, correlation)
    for name, variance in found.items():
        assert variance == pytest.approx(expected[name], rel=0.002)
        fixed = (norm.ppf(0.95) + norm.ppf(0.8)) ** 2 * variance / np.log(1.05) ** 2
        assert fixed == pytest.approx(expected["n_fixed_5pct"][name], rel=0.002)


def test_multipliers():
    """The simulated table at its levels, between them, and beyond."""
    assert multiplier(0.05, 0.8) == pytest.approx(10.9)
    assert multiplier(0.01, 0.9) == pytest.approx(19.4)
    assert 10.9 < multiplier(0.03, 0.8) < 12.6
    assert multiplier(0.001, 0.8) > multiplier(0.05 / 6, 0.8)


def test_pairs_without_any_event():
    """The betting test's own: +0.5 pp after about 1,120 pairs, +0.1 pp after about 5,620."""
    assert least_pairs_of_share(0.005, 0.05) == pytest.approx(1120, rel=0.05)
    assert least_pairs_of_share(0.001, 0.05) == pytest.approx(5620, rel=0.08)


def test_needs_of_the_default_policy():
    """More for a tail than for a median, more for half a margin, more under dependence."""
    found = needs(Policy(), Stated(), {})
    assert found["ttft_any.p95"].to_pass < found["e2e.p95"].to_pass * 1.01
    assert found["tpot.mean"].to_pass < found["ttft_any.p50"].to_pass
    tight = Policy.model_validate({"metrics": {"tpot.mean": {"margin": "2.5%"}}})
    assert needs(tight, Stated(), {})["tpot.mean"].to_pass > 3 * found["tpot.mean"].to_pass
    assert needs(Policy(), Stated(design=4), {})["e2e.p95"].to_pass > 3 * found["e2e.p95"].to_pass
    assert not found["tpot.mean"].measured


def test_a_goal_is_planned_for():
    """`improve 5%` asks for about as many as a margin of 5 %; a goal near everything is finite."""

    def to_pass(**gated) -> int:
        rules = Policy.model_validate({"metrics": {"tpot.mean": {"margin": "5%", **gated}}})
        return needs(rules, Stated(), {})["tpot.mean"].to_pass

    assert to_pass(goal="improve 5%") == pytest.approx(to_pass(), rel=0.2)
    assert to_pass(goal="improve 1%") > 20 * to_pass()
    assert to_pass(goal="improve 99%") > 0
    more = {"tokens_per_s.ratio": {"margin": "5%", "goal": "improve 60%"}}
    assert needs(Policy.model_validate({"metrics": more}), Stated(), {})
    share = {"failure.rate": {"margin": "1pp", "goal": "improve 1pp"}}
    assert needs(Policy.model_validate({"metrics": share}), Stated(), {})


@pytest.mark.parametrize("option", ["rate", "sigma", "correlation", "bad", "design", "gpus"])
@pytest.mark.parametrize("value", ["nan", "inf", "1e400"])
def test_what_is_no_number_is_a_mistake_of_usage(tmp_path, capsys, option, value):
    """2 and one line that names the option; never a plan of nan minutes."""
    assert run(["plan", "-c", str(tmp_path / "no.yaml"), f"--{option}", value]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert f"--{option}" in said.err


def test_a_measured_control_replaces_what_is_stated():
    """V·DE is the squared standard error times the pairs: here the stated one, within its noise."""
    rng = np.random.default_rng(3)
    x, y = np.exp(rng.multivariate_normal([3, 3], [[0.25, 0.125], [0.125, 0.25]], 8000)).T
    policy = Policy.model_validate({"metrics": {"tpot.mean": {"margin": "5%"}}})
    stated = needs(policy, Stated(), {})["tpot.mean"]
    measured = needs(policy, Stated(), {"tpot.mean": mean_of(x, y, 80)})["tpot.mean"]
    assert measured.measured
    assert measured.to_pass == pytest.approx(stated.to_pass, rel=0.35)


def test_parity():
    """Candidate replicas over the primary's; a tenth off is said with its direction."""
    assert parity(2, 8) == 0.25
    assert parity(None, 8) is None
    assert off_parity("fp8", 0.25, 0.25) is None
    assert off_parity("fp8", 0.27, 0.25) is None
    assert "sees less" in (off_parity("fp8", 0.1, 0.25) or "")
    assert "sees more" in (off_parity("fp8", 0.5, 0.25) or "")
    assert minutes(1000, Policy(), 10.0) == 60  # min_span is an hour


def config(tmp_path, sample: float = 0.1) -> str:
    arm = {"role": "candidate", "url": "http://127.0.0.1:9", "sample": sample, "replicas": 2}
    tree = {
        "experiment": "e", "capture": "text",
        "primary": {"url": "http://127.0.0.1:9", "replicas": 8},
        "arms": {"fp8": arm},
        "stream": {"embedded": str(tmp_path / "stream")},
        "store": {"embedded": str(tmp_path / "store"), "listen": "127.0.0.1:1"},
    }  # fmt: skip
    (tmp_path / "shadow.yaml").write_text(yaml.safe_dump(tree))
    return str(tmp_path / "shadow.yaml")


def test_the_command(tmp_path, capsys):
    """Pairs a metric, minutes and GPU-hours an arm, and a warning where the rate breaks parity."""
    assert run(["plan", "-c", config(tmp_path), "--rate", "20", "--format", "json"]) == 0
    tree = json.loads(capsys.readouterr().out)
    arm = tree["arms"]["fp8"]
    assert arm["pairs"] == max(need["to_pass"] for need in tree["metrics"].values())
    assert arm["minutes"] == pytest.approx(max((arm["pairs"] + 200) / 2 / 60, 60), abs=0.1)
    assert arm["gpu_hours"] == pytest.approx(arm["minutes"] / 60 * 2, abs=0.01)
    assert arm["parity"] == 0.25
    assert "load parity is at 0.25" in tree["warnings"][0]
    assert run(["plan", "-c", config(tmp_path, 0.25)]) == 0
    said = capsys.readouterr().out
    assert "state --rate for minutes" in said
    assert "Warning" not in said


def test_a_plan_is_read_in_a_terminal(tmp_path, capsys):
    """Columns have headings, lines fit; failing has its own count, and little is not nothing."""
    path = Path(config(tmp_path, 0.25))
    (tmp_path / "policy.yaml").write_text("min_span: 0s")
    path.write_text(f"{path.read_text()}policy: {tmp_path}/policy.yaml\n")
    words = ["--rate", "5000", "--gpus", "0.02"]
    assert run(["plan", "-c", str(path), *words, "--format", "json"]) == 0
    tree = json.loads(capsys.readouterr().out)
    arm = tree["arms"]["fp8"]
    assert arm["pairs_to_fail"] == max(need["to_fail"] for need in tree["metrics"].values())
    assert arm["pairs_to_fail"] > arm["pairs"]
    assert run(["plan", "-c", str(path), *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["metric", "to", "pass", "to", "fail"]
    assert f"  {arm['pairs']:,} pairs to pass, {arm['pairs_to_fail']:,} to fail" in lines
    (cost,) = [line for line in lines if "GPU-hours" in line]
    assert float(cost.split()[3]) == pytest.approx(arm["gpu_hours"], rel=0.1)
    assert 0 < arm["gpu_hours"] < 0.05
    assert all(len(line) <= 80 for line in lines if not line.startswith("assumed, "))


def test_what_candidate_and_control_both_get():
    """By one key the smaller rate lies within the larger; by two they meet by chance."""
    assert overlap(0.25, 0.5, one_key=True) == 0.25
    assert overlap(0.25, 0.25, one_key=False) == 0.0625
    assert off_overlap("fp8", 0.25, "control", 0.5, {"request"}) is None
    assert off_overlap("fp8", 0.25, "control", 1.0, {"request", "conversation"}) is None
    assert off_overlap("fp8", 0.5, "control", 0.25, {"request"}) == (
        "arms.fp8: only 50% of its requests reach control too, and no others are judged: "
        "give both one `sample` (not 0.5 and 0.25)"
    )
    keys = off_overlap("fp8", 0.25, "control", 0.25, {"request", "conversation"})
    assert keys.endswith("give both one `key` (not conversation and request)")


def with_control(tmp_path, key: str, **control) -> str:
    path = config(tmp_path)
    tree = yaml.safe_load((tmp_path / "shadow.yaml").read_text())
    arm = {"url": "http://127.0.0.1:9", "sample": 0.25}
    tree["arms"] = {
        "fp8": {**arm, "role": "candidate", "key": key},
        "control": {**arm, "role": "control", **control},
    }
    (tmp_path / "shadow.yaml").write_text(yaml.safe_dump(tree))
    return path


@pytest.mark.parametrize("command", ["config", "plan"])
def test_different_keys_are_said(tmp_path, capsys, command):
    """One line that has the way out, before any traffic; with one key there is none."""
    where = {"config": "err", "plan": "out"}[command]
    assert run([command, "-c", with_control(tmp_path, "conversation")]) == 0
    said = getattr(capsys.readouterr(), where)
    assert said.lower().count("warning: arms.fp8: only 25% of its requests reach control too") == 1
    assert run([command, "-c", with_control(tmp_path, "request")]) == 0
    assert "arning" not in "".join(capsys.readouterr())


def test_unequal_loads_are_what_the_analysis_holds_for():
    """The bound is that of its precondition, both ways; an arm without a rate is no load."""
    assert OFF_PARITY == SAME_LOAD
    assert off_load("fp8", 0.2, "control", 0.21) is None
    assert off_load("fp8", 0.2, "control", 0.0) is None
    for load, other in ((0.2, 0.5), (0.5, 0.2)):
        said = off_load("fp8", load, "control", other)
        assert said.startswith(f"arms.fp8: it gets {load} of the requests and control {other},")
        assert "give both one `sample`, or state `replicas` of both" in said


@pytest.mark.parametrize("command", ["config", "plan"])
def test_a_control_that_gets_more_is_said(tmp_path, capsys, command):
    """It would hold for ever: one line before any traffic, from `up`, `config` and `plan`. By
    replicas that even the loads out there is none, and with all stated parity is what is judged."""
    where = {"config": "err", "plan": "out"}[command]
    assert run([command, "-c", with_control(tmp_path, "request", sample=0.5)]) == 0
    said = getattr(capsys.readouterr(), where)
    assert said.lower().count("warning: ") == 1
    assert "arms.fp8: it gets 0.25 of the requests and control 0.5" in said
    path = Path(with_control(tmp_path, "request", sample=0.5))
    tree = yaml.safe_load(path.read_text())
    tree["primary"].pop("replicas")
    tree["arms"]["fp8"]["replicas"], tree["arms"]["control"]["replicas"] = 1, 2
    path.write_text(yaml.safe_dump(tree))
    assert run([command, "-c", str(path)]) == 0
    assert "arning" not in "".join(capsys.readouterr())
    assert run([command, "-c", with_control(tmp_path, "request", replicas=2)]) == 0
    assert "and control 0.125" in getattr(capsys.readouterr(), where)


def test_a_plan_counts_what_both_get(tmp_path, capsys):
    """Minutes by the pairs that are judged, not by all that are sampled."""
    path = with_control(tmp_path, "conversation")
    assert run(["plan", "-c", path, "--rate", "1", "--format", "json"]) == 0
    tree = json.loads(capsys.readouterr().out)
    arm = tree["arms"]["fp8"]
    assert (arm["sample"], arm["judged_share"]) == (0.25, 0.0625)
    assert arm["minutes"] == pytest.approx((arm["pairs"] + 200) / 0.0625 / 60, abs=0.1)
    assert tree["arms"]["control"]["judged_share"] == 0.25
