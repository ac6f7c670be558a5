"""Pairs and windows in the real engine: what is paired, what is excluded, rewriting and late arrivals."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from analysis.answers import report
from analysis.arrivals import Arrivals, changed
from analysis.closing import Progress
from analysis.evidence import Contrast, samples
from analysis.look import Memory, look
from analysis.metrics import metrics
from analysis.policy import Policy
from analysis.queries import sql
from analysis.report import markdown
from analysis.workers import standing

from .arrays import mean_of, quantile_of
from .world import POLICY, T0

S = 10**9


def run(world, settings, now_s=100, memory=None):
    return look(world.client, settings, memory or Memory(), T0 + now_s * S, whole=True)


def pairs(world, columns, where="1", final="FINAL"):
    return world.client.query(
        f"SELECT {columns} FROM pairs {final} WHERE experiment = '{world.experiment}' AND {where} "
        "ORDER BY pair_id, arm, reference_arm"
    ).result_rows


TOTALS = "toUnixTimestamp(window) - 1790000000, exchanges, captured, pairs, excluded"


def totals(world, columns=TOTALS, reference="primary", arm="fp8"):
    return world.client.query(
        f"SELECT {columns} "
        f"FROM window_totals FINAL WHERE experiment = '{world.experiment}' "
        f"AND candidate = '{arm}' AND reference_arm = '{reference}' ORDER BY window"
    ).result_rows


def test_every_contrast_of_one_request(world):
    """The candidate against primary and control, and the control against primary; texts by the primary's."""
    world.exchange(0.1, "p1", "primary", text_hash=1, tpot_ms=20)
    world.exchange(0.1, "p1", "fp8", text_hash=2, tpot_ms=23)
    world.exchange(0.1, "p1", "control", text_hash=1, tpot_ms=21)
    world.exchange(0.2, "p2", "primary")
    world.exchange(0.2, "p2", "fp8", text_hash=None)
    world.store()
    world.heard(2, None)
    run(world, world.settings())
    found = pairs(
        world,
        "pair_id, arm, reference_arm, tpot_ms, reference_tpot_ms, mismatch, reference_mismatch",
    )
    assert found == [
        ("p1", "control", "primary", 21, 20, 0, 0),
        ("p1", "fp8", "control", 23, 21, 1, 0),
        ("p1", "fp8", "primary", 23, 20, 1, 0),
        ("p2", "fp8", "primary", 20, 20, None, 0),
    ]


CASES = [
    ({"failure": 1, "outcome": "http_error"}, {}, "primary_failed"),
    ({"failure": None, "outcome": "client_disconnected"}, {}, "client_cancelled"),
    ({}, {"failure": None, "transport": "client_disconnected"}, "client_cancelled"),
    ({}, {"failure": None, "outcome": "truncated_capture"}, "truncated_capture"),
    ({}, {"failure": 1, "transport": "cut_by_drain"}, "cut_by_drain"),
    ({}, {"failure": 1, "transport": "deadline_short"}, "deadline_short"),
    ({"failure": 1, "outcome": "not_a_completion"}, {}, "not_a_completion"),
    ({}, {"failure": None, "outcome": "a word of tomorrow"}, "unknown_outcome"),
    ({}, {"failure": 1, "outcome": "http_error"}, ""),
    ({}, {}, ""),
]


def test_exclusions_are_named(world):
    """A pair that says nothing about the candidate is left out with its reason; a failure is not."""
    for i, (primary, fp8, _) in enumerate(CASES):
        world.exchange(0.1, f"p{i}", "primary", **primary)
        world.exchange(0.1, f"p{i}", "fp8", **fp8)
    world.store()
    world.heard(2, None)
    run(world, world.settings(control=None))
    reasons = [reason for _, _, reason in CASES]
    assert pairs(world, "excluded") == [(reason,) for reason in reasons]
    named = {reason: reasons.count(reason) for reason in reasons if reason}
    assert totals(world) == [(0, 20, 10, 2, named)]


def test_errors_inside_of_streams_and_answers_cut_at_their_length(world):
    """Shares of their own: what failed has no finish reason, and without one nothing is said."""
    cases = [
        ({"outcome": "in_band_error", "failure": 1}, (1, None)),
        ({"outcome": "complete", "finish_reason": "length"}, (0, 1)),
        ({"outcome": "complete", "finish_reason": "max_tokens"}, (0, 1)),
        ({"outcome": "complete", "finish_reason": "stop"}, (0, 0)),
        ({"outcome": "complete", "finish_reason": ""}, (0, None)),
    ]
    for i, (facts, _) in enumerate(cases):
        world.exchange(0.1, f"p{i}", "primary", finish_reason="stop")
        world.exchange(0.1, f"p{i}", "fp8", **{"finish_reason": "", **facts})
    world.store()
    world.heard(2, None)
    settings = world.settings(control=None)
    run(world, settings)
    assert pairs(world, "in_band_error, cut_at_length") == [expected for _, expected in cases]
    contrast = Contrast(world.experiment, settings.comparisons["fp8"], "fp8", "primary")
    blocks = Policy.model_validate({"blocks": {"by": "count", "pairs": 1}}).blocks
    found = samples(world.client, contrast, ["in_band_error.rate", "cut_at_length.rate"], blocks)
    assert [(one.value, one.pairs) for one in found.values()] == [(0.2, 5), (2 / 3, 3)]


@pytest.mark.parametrize("transport", ["timed_out", "breaker_open"])
@pytest.mark.parametrize(
    ("took_ms", "reason"), [(60_000, ""), (99_000, ""), (101_000, "deadline_short")]
)
def test_a_deadline_within_the_slack_proves_nobody_slow(world, took_ms, reason, transport):
    """The deadline must lie 20 % beyond the primary's own time, or both sides are censored; so is
    what was not sent because deadlines had opened the breaker."""
    world.exchange(0.1, "p1", "primary", e2e_ms=took_ms)
    world.exchange(0.1, "p1", "fp8", failure=1, transport=transport, e2e_ms=None)
    world.store()
    world.heard(2, None)
    run(world, replace(world.settings(control=None), deadlines_s={"fp8": 120.0}))
    assert pairs(world, "excluded") == [(reason,)]


def test_failures_count_on_both_sides_alike(world):
    """A primary that fails too: an equal candidate adds nothing, with a control and without."""
    for i in range(40):
        for arm, every in (("primary", 8), ("fp8", 10), ("control", 5)):
            failed = i % every == 0
            outcome = "http_error" if failed else "complete"
            world.exchange(0.1 + i / 100, f"p{i}", arm, failure=int(failed), outcome=outcome)
    world.store()
    world.heard(2, None)
    settings = world.settings()
    run(world, settings)
    for reference, share in (("primary", 5 / 40), ("control", 8 / 40)):
        contrast = Contrast(world.experiment, settings.comparisons["fp8"], "fp8", reference)
        blocks = Policy.model_validate({"blocks": {"by": "count", "pairs": 10}}).blocks
        sample = samples(world.client, contrast, ["failure.rate"], blocks)["failure.rate"]
        assert (sample.pairs, sample.value, sample.reference_value) == (40, 0.1, share)


def test_a_failed_answer_is_infinitely_slow_and_has_no_text(world):
    """Also where it came back fast, or never had a time; what the reference lacks stays out."""
    world.exchange(0.1, "p1", "primary", tpot_ms=None)
    world.exchange(
        0.1, "p1", "fp8", failure=1, outcome="http_error", ttft_any_ms=1.0, e2e_ms=None, text_hash=2
    )
    world.store()
    world.heard(2, None)
    run(world, world.settings(control=None))
    ((ttft, e2e, mismatch, failure),) = pairs(world, "ttft_any_ms, e2e_ms, mismatch, failure")
    assert (math.isinf(ttft), math.isinf(e2e), mismatch, failure) == (True, True, None, 1)
    rows = world.client.query(
        "SELECT metric, n, infinite, reference_infinite, sum_wd, n_plus FROM windows FINAL "
        f"WHERE experiment = '{world.experiment}' AND metric IN ('e2e', 'tpot', 'failure') ORDER BY metric"
    ).result_rows
    assert rows == [
        ("e2e", 1, 1, 0, pytest.approx(math.log(10)), 0),
        ("failure", 1, 0, 0, 1, 1),
        ("tpot", 0, 0, 0, 0, 0),
    ]


def test_a_pair_never_mixes_token_sources(world):
    """Counted differently on the two sides: what is reckoned from tokens is undefined and counted,
    the rest is judged; events on both sides are one source; a failure stays infinitely slow."""
    sources = [("usage", "events"), ("events", "events"), ("usage", ""), ("usage", "usage")]
    for i, (primary, fp8) in enumerate(sources):
        world.exchange(0.1, f"p{i}", "primary", token_source=primary)
        world.exchange(0.1, f"p{i}", "fp8", token_source=fp8)
    world.exchange(0.1, "p4", "primary", token_source="usage")
    world.exchange(0.1, "p4", "fp8", token_source="events", failure=1, outcome="in_band_error")
    world.store()
    world.heard(2, None)
    run(world, world.settings(control=None))
    columns = "tpot_ms, itl_mean_ms, output_tokens, reference_output_tokens, e2e_ms, undefined"
    assert pairs(world, columns) == [
        (None, None, None, None, 300.0, ["token_source"]),
        *[(20.0, 20.0, 11, 11, 300.0, [])] * 3,
        (math.inf, math.inf, 11, 11, math.inf, []),
    ]
    assert counted(world) == {
        "tpot": 4, "itl_mean": 4, "tokens_per_s": 3, "output_tokens": 3, "e2e": 5, "itl_p50": 5, "ttft_any": 5,
    }  # fmt: skip
    assert totals(world, "undefined") == [({"token_source": 1},)]


def test_sources_are_compared_with_each_reference(world):
    """The candidate counts as the control does and not as the primary: one of its two pairs is mixed."""
    for arm, source in (("primary", "usage"), ("control", "events"), ("fp8", "events")):
        world.exchange(0.1, "p1", arm, token_source=source)
    world.store()
    world.heard(2, None)
    run(world, world.settings())
    assert pairs(world, "arm, reference_arm, tpot_ms, reference_tpot_ms") == [
        ("control", "primary", None, None),
        ("fp8", "control", 20.0, 20.0),
        ("fp8", "primary", None, None),
    ]


def test_what_a_slow_client_stretched_is_undefined(world):
    """Over 1 % of its time held back: times after the first token are left out and counted."""
    for i, wait_ms in enumerate((3.5, 2.5, 0.0)):
        world.exchange(0.1, f"p{i}", "primary", client_wait_ms=wait_ms)
        world.exchange(0.1, f"p{i}", "fp8", client_wait_ms=0.0)
    world.store()
    world.heard(2, None)
    run(world, world.settings(control=None))
    assert counted(world) == {
        "tpot": 2, "itl_mean": 2, "tokens_per_s": 2, "output_tokens": 3, "e2e": 2, "itl_p50": 2, "ttft_any": 3,
    }  # fmt: skip
    assert totals(world, "undefined") == [({"client_wait": 1},)]


def test_the_engines_own_times_and_events_per_read_are_compared(world):
    """Server timings as times, where both sides have them; events by reads as a ratio of sums."""
    world.exchange(0.1, "p1", "primary", server_ttft_ms=10.0, events=12, events_per_read=1.0)
    world.exchange(0.1, "p1", "fp8", server_ttft_ms=30.0, events=12, events_per_read=6.0)
    world.store()
    world.heard(2, None)
    run(world, world.settings(control=None))
    rows = world.client.query(
        "SELECT metric, n, round(exp(sum_wd), 6), numerator, denominator, reference_denominator FROM windows FINAL "
        f"WHERE experiment = '{world.experiment}' AND metric IN ('server_ttft', 'server_queue', 'events_per_read') "
        "ORDER BY metric"
    ).result_rows
    assert [row[:3] for row in rows] == [
        ("events_per_read", 1, 1.0), ("server_queue", 0, 1.0), ("server_ttft", 1, 3.0),
    ]  # fmt: skip
    assert rows[0][3:] == (12, 2, 12)


def counted(world):
    """Pairs in which each of some metrics is defined."""
    wanted = "'tpot', 'itl_mean', 'tokens_per_s', 'output_tokens', 'e2e', 'itl_p50', 'ttft_any'"
    rows = world.client.query(
        "SELECT metric, n FROM windows FINAL "
        f"WHERE experiment = '{world.experiment}' AND metric IN ({wanted})"
    ).result_rows
    return dict(rows)


def test_warm_up_is_the_first_pairs_and_does_not_move(world):
    """The first five are left out and counted, whichever look sees them; later looks keep the end."""
    settings = world.settings(control=None, policy={**POLICY, "warm_up": {"pairs": 5}})
    world.traffic(1, 4, {"fp8": {}})
    world.store()
    world.heard(1, 1)
    memory = run(world, settings, 1)
    assert totals(world) == [(0, 8, 4, 0, {"warm_up": 4})]
    world.traffic(2, 4, {"fp8": {}}, first=1)
    world.store()
    world.heard(4, 4)
    run(world, settings, 4, memory)
    assert [row[3:] for row in totals(world)] == [(0, {"warm_up": 4}), (3, {"warm_up": 1}), (4, {})]


def test_a_window_waits_until_it_is_closed(world):
    """Nothing is built of a window that a live worker has not passed, nor before its records are stored."""
    settings = world.settings(control=None)
    world.traffic(3, 2, {"fp8": {}})
    late = world.pending_rows.pop()
    world.store()
    world.heard(3, 2.5)
    memory = run(world, settings, 3)
    assert totals(world) == []
    world.store([late])
    memory = run(world, settings, 4, memory)
    assert [row[0] for row in totals(world)] == [0, 1]
    world.heard(5, 5)
    run(world, settings, 5, memory)
    assert [row[0] for row in totals(world)] == [0, 1, 2]


def test_a_dead_worker_s_missing_sequences_are_lost(world):
    """Sampled 4, stored 3: pending while it lives, lost after five minutes of silence, and the window closes."""
    settings = world.settings(control=None)
    for i in range(4):
        world.exchange(0.1 + i / 10, f"p{i}", "primary")
        world.exchange(0.1 + i / 10, f"p{i}", "fp8")
    world.pending_rows.pop()
    world.store()
    world.heard(2, 2)
    for arm in ("primary", "fp8"):
        world.count(2, arm, "sampled", 4)
    before = standing(world.client, settings, Progress(), T0 + 3 * S)
    assert (before.watermark_ns, before.accounts["fp8"].pending) == (None, 1)
    after = standing(world.client, settings, Progress(), T0 + 303 * S)
    assert (after.watermark_ns, after.accounts["fp8"].lost) == (T0 + S, 1)
    run(world, settings, 303)
    assert totals(world) == [(0, 7, 3, 3, {})]


def test_answers_that_could_not_all_be_read_are_in_the_report(world):
    """Counted once an answer, however often it was delivered, by arm; said beside the accounting."""
    settings = world.settings(control=None)
    world.exchange(0.5, "p0", "primary", unreadable_events=0, damaged_events=0)
    row = world.exchange(0.5, "p0", "fp8", unreadable_events=3, damaged_events=0)
    world.exchange(0.6, "p1", "fp8", unreadable_events=0, damaged_events=1)
    world.exchange(0.7, "p2", "fp8", unreadable_events=0, damaged_events=0)
    world.store()
    world.store([row])
    world.heard(2, None)
    run(world, settings, 3)
    told = report(world.client, settings)
    arms = told["accounting"]["arms"]
    assert (arms["primary"]["unreadable"], arms["fp8"]["unreadable"]) == (0, 2)
    assert "Not all could be read of (the bytes are kept): fp8 2." in markdown(told)


def test_redelivery_changes_nothing(world):
    """Every record stored twice: the same pairs, windows, accounting, and no rewriting."""
    settings = world.settings()
    world.traffic(3, 5, {"fp8": {}, "control": {}})
    rows = world.pending_rows
    world.store()
    world.heard(4, 4)
    memory = run(world, settings, 4)
    first = (
        totals(world),
        world.client.query(
            f"SELECT * FROM windows FINAL WHERE experiment = '{world.experiment}' ORDER BY ALL"
        ).result_rows,
    )
    world.store(rows)
    run(world, settings, 5, memory)
    again = (
        totals(world),
        world.client.query(
            f"SELECT * FROM windows FINAL WHERE experiment = '{world.experiment}' ORDER BY ALL"
        ).result_rows,
    )
    assert again == first
    assert standing(world.client, settings, Progress(), T0 + 5 * S).accounts["fp8"].captured == 15


def test_a_late_arrival_rewrites_its_window_and_is_counted(world):
    """The window rises a version, holds what all would have given at once, and `late` says how many."""
    settings = world.settings(control=None)
    world.traffic(3, 5, {"fp8": {}})
    late = [row for row in world.pending_rows if row["pair_id"] == "p1-2"]
    world.pending_rows = [row for row in world.pending_rows if row["pair_id"] != "p1-2"]
    world.store()
    world.heard(4, 4, dropped_sequences=2)
    memory = run(world, settings, 4)
    versions = dict(_versions(world))
    world.store(late)
    run(world, settings, 6, memory)
    assert [row[3] for row in totals(world)] == [5, 5, 5]
    assert [
        old != new for (_, new), old in zip(_versions(world), versions.values(), strict=True)
    ] == [False, True, False]
    detail = world.client.query(
        f"SELECT detail FROM events WHERE experiment = '{world.experiment}' AND kind = 'late'"
    ).result_rows
    assert [json.loads(text) for (text,) in detail] == [{"windows": 1, "exchanges": 2}]


def _versions(world):
    return world.client.query(
        f"SELECT window, version FROM window_totals FINAL WHERE experiment = '{world.experiment}' ORDER BY window"
    ).result_rows


def test_a_rewritten_window_leaves_nothing_of_its_former_self(world):
    """A better decoder takes a value away: no bin, no metric and no pair of the former reading is seen."""
    settings = world.settings(control=None)
    world.traffic(1, 40, {"fp8": {}})
    rows = world.pending_rows
    world.store()
    world.heard(2, 2)
    memory = run(world, settings, 2)
    contrast = Contrast(world.experiment, settings.comparisons["fp8"], "fp8", "primary")
    assert "tpot.mean" in samples(
        world.client, contrast, ["tpot.mean", "e2e.p50"], settings.policy.blocks
    )
    world.store([{**row, "version": 2, "tpot_ms": None} for row in rows])
    world.exchange(0.99, "p-late", "primary")
    world.store()
    run(world, settings, 3, memory)
    again = samples(world.client, contrast, ["tpot.mean", "e2e.p50"], settings.policy.blocks)
    assert list(again) == ["e2e.p50"]


def test_half_a_rewriting_is_not_seen(world):
    """Windows of a version that no totals name (a process killed in between) do not count."""
    settings = world.settings(control=None)
    world.traffic(1, 40, {"fp8": {}})
    world.store()
    world.heard(2, 2)
    run(world, settings, 2)
    contrast = Contrast(world.experiment, settings.comparisons["fp8"], "fp8", "primary")
    before = samples(world.client, contrast, ["tpot.mean"], settings.policy.blocks)["tpot.mean"]
    world.client.command(
        "INSERT INTO windows SELECT * REPLACE (version + 1 AS version, n * 2 AS n) "
        f"FROM windows WHERE experiment = '{world.experiment}'"
    )
    after = samples(world.client, contrast, ["tpot.mean"], settings.policy.blocks)["tpot.mean"]
    assert after.pairs == before.pairs


def test_windows_give_what_the_pairs_give(world):
    """Mean and quantiles by way of windows equal those of the plain arrays, failures included."""
    settings = world.settings(control=None)
    world.traffic(20, 25, {"fp8": {"tpot": 1.1, "failure": 0.02}})
    world.store()
    world.heard(21, None)
    run(world, settings, 22)
    rows = pairs(world, "toUnixTimestamp(arrived_at) AS t, tpot_ms, reference_tpot_ms")
    ordered = np.array(sorted(rows, key=lambda row: row[0]))
    x, y = ordered[:, 1], ordered[:, 2]
    contrast = Contrast(world.experiment, settings.comparisons["fp8"], "fp8", "primary")
    found = samples(
        world.client, contrast, ["tpot.mean", "tpot.p50", "tpot.p95"], settings.policy.blocks
    )
    expected = {
        "tpot.mean": mean_of(x, y, 25),
        "tpot.p50": quantile_of(x, y, 0.5, 25),
        "tpot.p95": quantile_of(x, y, 0.95, 100),  # four beyond it a block
    }
    for name, sample in expected.items():
        assert found[name].estimate == pytest.approx(sample.estimate)
        assert found[name].influences == pytest.approx(sample.influences, abs=1e-9)


def test_ratios_of_sums_in_windows(world):
    """Tokens by seconds where both answered, tokens by answers; a failed answer is in neither sum."""
    world.exchange(0.1, "p1", "primary", output_tokens=11, decode_ms=200)
    world.exchange(0.1, "p1", "fp8", output_tokens=21, decode_ms=500)
    world.exchange(0.2, "p2", "primary")
    world.exchange(0.2, "p2", "fp8", failure=1, outcome="http_error")
    world.store()
    world.heard(2, None)
    run(world, world.settings(control=None))
    rows = world.client.query(
        "SELECT metric, n, numerator, denominator, reference_numerator, reference_denominator "
        f"FROM windows FINAL WHERE experiment = '{world.experiment}' "
        "AND metric IN ('tokens_per_s', 'output_tokens') ORDER BY metric"
    ).result_rows
    assert rows == [("output_tokens", 1, 21, 1, 11, 1), ("tokens_per_s", 1, 20, 0.5, 10, 0.2)]


def test_runs_of_windows_are_bounded():
    """Neighbours are built together up to a bound; what stands is left alone; one large window is its own."""
    held = [Arrivals(s, n, {}) for s, n in ((0, 5), (1, 5), (2, 5), (5, 50), (6, 1), (7, 1))]
    runs = [(r.from_s, r.until_s) for r in changed(held, {6: 1}, 1, most=10)]
    assert runs == [(0, 2), (2, 3), (5, 6), (7, 8)]
    assert list(changed(held, {w.start_s: w.exchanges for w in held}, 1)) == []


def test_the_statements_know_every_metric():
    """A time of metrics.toml is in the windows of times, a share in those of shares, and so on."""
    text = {"time": "windows_times", "share": "windows_shares", "ratio": "windows_ratios"}
    for metric in metrics().values():
        if metric.kind != "told":  # the proxy's own; 0 on every mirrored arm
            statement = "windows_probes" if metric.probe else text[metric.kind]
            assert f"('{metric.name}'," in sql(statement)


def test_a_changed_policy_counts_from_its_start(world):
    """Arrivals before it belong to the former comparison; alpha shrinks with the attempt."""
    first = world.settings(control=None)
    world.traffic(2, 5, {"fp8": {}})
    world.store()
    world.heard(3, 3)
    run(world, first, 3)
    second = type(first)(
        **{
            **first.__dict__,
            "comparisons": {"fp8": "other"},
            "policy": Policy.model_validate({**POLICY, "coverage": 0.9}),
        }
    )
    run(world, second, 4)
    world.traffic(2, 5, {"fp8": {}}, first=4)
    world.store()
    world.heard(7, 7)
    run(world, second, 7)
    rows = world.client.query(
        f"SELECT comparison, sum(pairs) FROM window_totals FINAL WHERE experiment = '{world.experiment}' GROUP BY comparison ORDER BY comparison"
    ).result_rows
    assert dict(rows)["other"] == 10
    detail = world.client.query(
        f"SELECT detail FROM events WHERE experiment = '{world.experiment}' AND comparison = 'other' AND kind = 'comparison_started'"
    ).result_rows
    assert [(json.loads(text)["attempt"]) for (text,) in detail] == [2]


def test_a_statistic_does_not_depend_on_what_else_is_asked_for(world):
    """Quantiles of one metric have blocks of different lengths: each reads its own windows."""
    settings = world.settings(control=None)
    world.traffic(45, 22, {"fp8": {"tpot": 1.1}})
    world.store()
    world.heard(46, None)
    look(world.client, settings, Memory(), T0 + 47 * S, whole=True)
    contrast = Contrast(settings.experiment, settings.comparisons["fp8"], "fp8", "primary")
    names = ["tpot.p50", "tpot.p95", "tpot.p99", "e2e.p95", "e2e.p50"]
    blocks = settings.policy.blocks
    alone = {name: samples(world.client, contrast, [name], blocks).get(name) for name in names}
    for asked in (names, names[::-1]):
        together = samples(world.client, contrast, asked, blocks)
        for name in names:
            mine, other = alone[name], together.get(name)
            assert (mine is None) == (other is None)
            if mine is not None:
                assert mine.estimate == other.estimate, name
                assert np.array_equal(mine.influences, other.influences), name
                assert abs(mine.influences.sum()) < 0.05, name
