"""The judge's promises: no data never passes, worse is never judged better, one burst is one event."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.case import Counted, Evidence
from analysis.compare.arrays import Arranged, share_sample
from analysis.judge import judge
from analysis.policy import Policy
from analysis.scale import ends, interval
from analysis.statistics.attempts import attempt_share
from analysis.waivers import Waiver

from .arrays import mean_of, quantile_of, share_of

DEMO = {
    "blocks": {"by": "time", "every": "1s", "min_pairs": 20, "planned": 50},
    "min_span": "0s",
}
PAIRS, BLOCK = 1320, 22
RANK = {"pass": 0, "open": 1, "fail": 2}


def policy(*names: str, **keys) -> Policy:
    metrics = {name: {"margin": "0.5pp" if name.startswith("fail") else "5%"} for name in names}
    return Policy.model_validate({**DEMO, "metrics": metrics, **keys})


def times(slower: float, seed: int, noise: float = 0.08, pairs: int = PAIRS):
    rng = np.random.default_rng(seed)
    y = 20 * np.exp(rng.normal(0, 0.1, pairs))
    return y * slower * np.exp(rng.normal(0, noise, pairs)), y


def state(name: str, sample, **keys) -> str:
    return (
        judge(policy(name), Evidence("fp8", "control", {name: sample}, **keys)).readings[name].state
    )


def verdict(rules: Policy, samples, **keys):
    return judge(rules, Evidence("fp8", "control", samples, span_s=60, **keys))


@pytest.mark.parametrize("seed", range(3))
def test_the_demo(seed):
    """1,320 pairs in 1 s windows: 15 % slower tokens are rejected, equal ones pass."""
    rules = policy("tpot.mean")
    slower = verdict(rules, {"tpot.mean": mean_of(*times(1.15, seed), BLOCK)}, coverage=1.0)
    assert slower.verdict == "reject"
    assert "slower than control" in slower.reason
    assert "beyond the limit of +5.0 %" in slower.reason
    same = verdict(rules, {"tpot.mean": mean_of(*times(1.0, seed), BLOCK)}, coverage=1.0)
    assert (same.verdict, same.readings["tpot.mean"].state) == ("promote", "pass")


def test_no_data_is_never_a_pass():
    """Nothing at all, a metric without data beside one that passes, and no gated metric: hold."""
    nothing = verdict(Policy(), {})
    assert (nothing.verdict, nothing.reason) == ("hold", "no data yet")
    half = verdict(policy("tpot.mean", "e2e.p95"), {"tpot.mean": mean_of(*times(1.0, 1), BLOCK)})
    assert (half.verdict, half.readings["e2e.p95"].state) == ("hold", "open")
    assert "e2e.p95 (no data)" in half.reason
    assert verdict(policy(), {}).reason == "no metric is gated"


def test_few_blocks_hold_and_say_so():
    """Forty pairs are too few for anything, also for a candidate twice as slow."""
    found = verdict(policy("tpot.mean"), {"tpot.mean": mean_of(*times(2.0, 1, pairs=40), 10)})
    assert found.verdict == "hold"
    said = "too few blocks: 4 so far, 9 are the least: more time, or more requests, make more"
    assert said in found.reason
    assert found.readings["tpot.mean"].extra_pairs > 0


def test_blocks_that_move_together_are_said_in_plain_words():
    """Thirty blocks in two long runs: what they are worth, what it takes, and the way out."""
    x, y = times(1.0, 1, pairs=1500)
    x[:750] *= 1.2
    told = verdict(policy("tpot.mean"), {"tpot.mean": mean_of(x, y, 50)}).reason
    assert "too few blocks: 30 so far, which move together, so they say no more than" in told
    assert " independent ones; 8 are the least: more time, or steadier traffic" in told
    few = replace(mean_of(*times(1.0, 1, pairs=1500), 50), kish=2.0)
    told = verdict(policy("tpot.mean"), {"tpot.mean": few}).reason
    assert "too few blocks: 30 so far, of which a few hold most of the pairs, so they" in told


def test_nothing_but_errors_rejects_at_any_coverage():
    """A candidate that always fails is rejected for it, though its times cannot be known."""
    bad = share_of(np.ones(PAIRS), np.zeros(PAIRS), BLOCK)
    dead = quantile_of(np.full(PAIRS, np.inf), times(1, 1)[1], 0.95, BLOCK)
    rules = policy("failure.rate", "e2e.p95")
    found = verdict(rules, {"failure.rate": bad, "e2e.p95": dead}, coverage=0.01)
    assert found.verdict == "reject"
    assert "failure.rate" in found.reason
    assert found.readings["e2e.p95"].state == "open"
    assert "too many failed answers" in found.readings["e2e.p95"].sentence


def test_low_coverage_holds_what_is_not_a_failure():
    """Neither a promotion nor a reject for latency stands on half of the pairs."""
    rules = policy("tpot.mean")
    for slower in (1.0, 1.15):
        found = verdict(rules, {"tpot.mean": mean_of(*times(slower, 1), BLOCK)}, coverage=0.5)
        assert (found.verdict, found.reason) == ("hold", "coverage is 50.0%, below 95%")


def test_one_outage_is_one_event():
    """Sixty failures in a row are overwhelming request by request; as one burst they decide nothing."""
    bad = np.zeros(PAIRS * 3)
    bad[600:660] = 1
    sample = share_of(bad, 0 * bad, BLOCK)
    assert state("failure.rate", sample) == "open"
    spread_out = np.zeros(PAIRS * 3)
    spread_out[::12] = 1
    assert state("failure.rate", share_of(spread_out, 0 * bad, BLOCK)) == "fail"


def test_no_failure_passes_half_a_point_after_about_a_thousand_pairs():
    """At the full level; before that it is open, for zero failures are no proof of none."""
    loose = Policy.model_validate(
        {**DEMO, "metrics": {"failure.rate": {"margin": "0.5pp"}},
         "alpha": {"reject": 0.05, "promote": 0.05 / attempt_share(1)}}
    )  # fmt: skip
    found = {}
    for pairs in (800, 1320):
        clean = share_of(np.zeros(pairs), np.zeros(pairs), 20)
        found[pairs] = verdict(loose, {"failure.rate": clean}).readings["failure.rate"].state
    assert found == {800: "open", 1320: "pass"}


def test_a_fail_that_is_not_critical_holds():
    """And says which metric it was."""
    rules = Policy.model_validate(
        {**DEMO, "metrics": {"tpot.mean": {"margin": "5%", "critical": False}}}
    )
    found = verdict(rules, {"tpot.mean": mean_of(*times(1.15, 1), BLOCK)})
    assert (found.verdict, found.reason) == ("hold", "failed, not critical: tpot.mean")
    assert found.families["latency"].state == "fail"


def test_a_reason_that_several_metrics_share_is_said_once():
    """Six metrics that wait for the same blocks say so in one breath."""
    short = mean_of(*times(1.0, 1, pairs=60), BLOCK)
    found = verdict(
        policy("tpot.mean", "itl_mean.mean", "e2e.mean"), {"tpot.mean": short, "e2e.mean": short}
    )
    assert re.fullmatch(
        r"undecided: tpot\.mean, e2e\.mean \(too few blocks: [^()]*\); itl_mean\.mean \(no data\)",
        found.reason,
    )


def test_min_span_holds_a_promotion_and_no_reject():
    """Everything passes within a minute; the policy wants an hour."""
    rules = policy("tpot.mean", min_span="1h")
    assert "min_span" in verdict(rules, {"tpot.mean": mean_of(*times(1.0, 1), BLOCK)}).reason
    assert verdict(rules, {"tpot.mean": mean_of(*times(1.15, 1), BLOCK)}).verdict == "reject"


def test_a_biased_test_bed_holds():
    """A control 8 % slower than the primary that it copies: neither promote nor a latency reject."""
    bed = {"tpot.mean": mean_of(*times(1.08, 9), BLOCK)}
    for slower in (1.0, 1.15):
        samples = {"tpot.mean": mean_of(*times(slower, 1), BLOCK)}
        found = verdict(policy("tpot.mean"), samples, test_bed=bed)
        assert found.verdict == "hold"
        assert "test bed is biased" in found.reason
    waived = {"tpot.mean": Waiver("tpot.mean", "ann", "known", 2**62)}
    both = {name: mean_of(*times(1.0, 1), BLOCK) for name in ("tpot.mean", "e2e.p50")}
    rules = policy("tpot.mean", "e2e.p50")
    assert verdict(rules, both, test_bed=bed, waived=waived).verdict == "promote"
    fine = {"tpot.mean": mean_of(*times(1.01, 9), BLOCK)}
    assert verdict(policy("tpot.mean"), samples, test_bed=fine).verdict == "reject"


def test_a_margin_below_the_noise_floor_is_named():
    """Noise that leaves more than the margin at the planned blocks: hold, with that reason."""
    rng = np.random.default_rng(2)
    y = 20 * np.exp(rng.normal(0, 0.1, PAIRS))
    x = y * np.exp(rng.normal(0.02, 1.2, PAIRS))
    found = verdict(policy("tpot.mean"), {"tpot.mean": mean_of(x, y, BLOCK)})
    assert found.verdict == "hold"
    assert "margin below the noise floor: ±" in found.reason
    bed = {"tpot.mean": mean_of(*times(1.0, 9), BLOCK)}
    calm = verdict(policy("tpot.mean"), {"tpot.mean": mean_of(x, y, BLOCK)}, test_bed=bed)
    assert "noise floor" not in calm.reason  # of the control against the primary there is little


def test_a_changed_configuration_is_said_while_there_is_little_data():
    """Why a comparison that had data yesterday has little today."""
    few = {"tpot.mean": mean_of(*times(1.0, 1, pairs=40), 10)}
    found = verdict(policy("tpot.mean"), few, changed="configuration changed: it counts anew")
    assert found.reason.startswith("configuration changed: it counts anew; undecided")


def test_a_reject_stays():
    """Later good data do not undo it; the reason is of then, and says so."""
    good = {"tpot.mean": mean_of(*times(1.0, 1), BLOCK)}
    found = verdict(
        policy("tpot.mean"),
        good,
        rejected="tpot.mean: 15 % slower",
        rejected_ns=1_790_000_000 * 10**9,
    )
    then = "when it was rejected (2026-09-21T14:13:20+00:00): tpot.mean: 15 % slower"
    assert (found.verdict, found.reason) == ("reject", then)


def test_higher_is_better_turns_the_sides():
    """Tokens a second 15 % down fail, 15 % up pass; the interval keeps its low end first."""
    base = mean_of(*times(1.15, 2), BLOCK)
    down = replace(base, estimate=-base.estimate)
    assert state("tokens_per_s.ratio", down) == "fail"
    assert state("tokens_per_s.ratio", base) == "pass"


def test_alpha_over_attempts_adds_up():
    """All comparisons of one build together spend alpha once."""
    assert sum(attempt_share(n) for n in range(1, 10_000)) == pytest.approx(1, abs=1e-4)


@settings(max_examples=25, deadline=None)
@given(
    st.floats(0.7, 1.5), st.floats(1.0, 1.6), st.integers(0, 50), st.sampled_from(["mean", "p95"])
)
def test_a_slower_candidate_is_never_judged_better(start, factor, seed, statistic):
    """All its times multiplied by a factor above 1: the state never moves towards pass."""

    def judged(slower: float) -> int:
        x, y = times(slower, seed, pairs=600)
        sample = mean_of(x, y, 20) if statistic == "mean" else quantile_of(x, y, 0.95, 20)
        return RANK[state(f"tpot.{statistic}", sample)]

    assert judged(start * factor) >= judged(start)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 20), st.integers(0, 20))
def test_more_failures_are_never_judged_better(few, more):
    """Failures in every block, then further ones in every block."""

    def judged(a_block: int) -> int:
        bad = np.tile(np.arange(BLOCK) < a_block, 60) * 1.0
        return RANK[state("failure.rate", share_of(bad, 0 * bad, BLOCK))]

    assert judged(min(few + more, BLOCK)) >= judged(few)


def test_equal_arms_are_not_rejected_however_often_one_looks():
    """A/A with queues that wander on each side alone (AR(1), about 20 requests), 60 runs, seeded."""
    rejected, runs = 0, 60
    rules = policy("tpot.mean", "e2e.p50")
    for run in range(runs):
        rng = np.random.default_rng(1000 + run)
        wander = np.zeros((2, 2400))
        noise = rng.normal(0, 0.15 * math.sqrt(1 - 0.9**2), (2, 2400))
        for i in range(1, 2400):
            wander[:, i] = 0.9 * wander[:, i - 1] + noise[:, i]
        x, y = 20 * np.exp(wander + rng.normal(0, 0.1, (2, 2400)))
        for upto in range(600, 2401, 600):
            samples = {
                "tpot.mean": mean_of(x[:upto], y[:upto], 24),
                "e2e.p50": quantile_of(x[:upto], y[:upto], 0.5, 24),
            }
            if verdict(rules, samples).verdict == "reject":
                rejected += 1
                break
    assert rejected <= 1


def test_a_mean_at_its_cap_is_not_told_as_a_figure():
    """Thirty times slower: each pair counts as tenfold at most, and that is what is said."""
    found = verdict(policy("tpot.mean"), {"tpot.mean": mean_of(*times(30, 1), BLOCK)})
    assert found.verdict == "reject"
    assert "about ten times slower than control, or more" in found.reason
    few = times(1.0, 1)
    few[0][::100] = np.inf
    told = verdict(policy("tpot.mean"), {"tpot.mean": mean_of(*few, BLOCK)}).readings["tpot.mean"]
    assert "1.06% of the pairs failed on one side and count as tenfold" in told.sentence


@pytest.mark.parametrize(
    ("counted", "said"),
    [
        (Counted(), "no data yet"),
        (Counted(excluded={"warm_up": 70}), "no data yet: warm-up, 70 of 200 pairs"),
        (Counted(complete=9), "no gated metric fills a block yet: 9 pairs so far"),
        (
            Counted(excluded={"warm_up": 200, "client_cancelled": 5}),
            "no pair could be judged: warm_up 200, client_cancelled 5",
        ),
        (Counted(pending=2, waiting=3), "no data yet: 5 requests wait for their window"),
    ],
)
def test_why_there_is_no_figure_yet(counted, said):
    """What there is instead: a warm-up, too little, what was excluded, what waits."""
    assert verdict(policy("tpot.mean"), {}, counted=counted).reason == said


def test_nothing_gated_says_what_was_not_measured_or_waived():
    """Never a promotion."""
    gone = verdict(policy("tpot.mean"), {}, absent=["tpot.mean"])
    assert (gone.verdict, gone.reason) == (
        "hold",
        "no metric is gated: nothing measured tpot.mean",
    )
    waiver = Waiver("tpot.mean", "ann", "known", 2**62)
    found = verdict(policy("tpot.mean"), {}, waived={"tpot.mean": waiver})
    assert (found.verdict, found.reason.split(":")[0]) == ("hold", "no metric is gated")


def test_open_ends_are_not_told_as_question_marks():
    """Too few blocks leave both ends open; a state has its reason instead."""
    few = {"tpot.mean": mean_of(*times(1.0, 1, pairs=40), 10)}
    told = verdict(policy("tpot.mean"), few).readings["tpot.mean"].sentence
    assert "?" not in told
    assert "too few blocks: 4 so far" in told
    assert ends(None, 0.05, "ratio") == "up to +5.0 %"
    assert ends(0.01, None, "share") == "+1.00 pp or more"


def test_a_control_that_dies_in_mid_run_is_named():
    """Thirteen blocks of a minute: the test bed is biased, whatever the candidate does."""
    gone = np.zeros(60 * 50)
    gone[-13 * 50 :] = 1
    at_s = 1_790_000_000 + np.arange(len(gone)) * 1.2
    of = Arranged(np.arange(len(gone)) // 50, np.ones(len(gone)), 3600.0, at_s)
    rules = Policy.model_validate({"metrics": {"failure.rate": {"margin": "0.5pp"}}})
    sides = {
        "samples": {"failure.rate": share_sample(of, 0 * gone, gone)},
        "test_bed": {"failure.rate": share_sample(of, gone, 0 * gone)},
    }
    found = judge(rules, Evidence("fp8", "control", span_s=3600, **sides))
    said = "the test bed is biased: the control was down for 13 blocks in a row (failure.rate)"
    assert (found.verdict, found.reason) == ("hold", said)


def test_a_share_has_no_bound_beyond_all():
    """Nothing but failures: +100 pp is the most that can be."""
    failed = np.ones(PAIRS)
    sample = share_of(failed, 0 * failed, BLOCK)
    reading = judge(policy("failure.rate"), Evidence("fp8", "control", {"failure.rate": sample}))
    shown = interval(
        reading.readings["failure.rate"].metric, reading.readings["failure.rate"].bounds
    )
    assert shown[1] == 1.0
