"""report.json keeps its contract, Markdown is made of it, and the gate reads nothing else."""

from __future__ import annotations

import json

import numpy as np
import pytest

from analysis.accounting import Account
from analysis.case import Counted, Evidence
from analysis.gate import aged, gate
from analysis.judge import judge
from analysis.policy import Policy
from analysis.report import document, markdown
from analysis.report.candidate import segments
from analysis.report.candidate_part import candidate_part
from analysis.settings import Settings
from analysis.words import plain

from .arrays import mean_of, quantile_of, share_of

POLICY = Policy.model_validate(
    {"blocks": {"every": "1s", "min_pairs": 20, "planned": 50}, "min_span": "0s"}
)
STATES = {"pass", "fail", "open", "not_gated"}


def part(slower: float, *, dead: bool = False) -> dict:
    rng = np.random.default_rng(4)
    y = 20 * np.exp(rng.normal(0, 0.1, 1320))
    x = y * slower * np.exp(rng.normal(0, 0.08, 1320))
    x = np.full(1320, np.inf) if dead else x
    samples = {
        "tpot.mean": mean_of(x, y, 22),
        "e2e.p95": quantile_of(x, y, 0.95, 22),
        "failure.rate": share_of(1.0 * np.isinf(x), 0 * y, 22),
    }
    evidence = Evidence("fp8", "control", samples, samples, coverage=1.0, span_s=60)
    counted = Counted(
        1400, 1320, 10, {"warm_up": 70}, 0, 1_790_000_000, 1_790_000_060, {"token_source": 12}
    )
    return candidate_part(evidence, judge(POLICY, evidence, ("itl_p99.p50",)), counted), counted


def report(*names: str, slower: float = 1.15, dead: bool = False) -> dict:
    settings = Settings("exp", "c1", names, {name: f"id-{name}" for name in names}, None, POLICY)
    made = {name: part(slower, dead=dead) for name in names}
    accounts = {"fp8": Account(10, {"marked": 2}, 7, {"deadline": 1}, 1, 1)}
    return document(
        settings,
        {name: one for name, (one, _) in made.items()},
        {name: counted for name, (_, counted) in made.items()},
        accounts,
    )


def test_the_keys_of_the_contract():
    """Every key and vocabulary that other people's files rely on; strict JSON."""
    tree = json.loads(json.dumps(report("fp8"), allow_nan=False))
    assert {"schema", "experiment", "comparison", "config_hash", "policy_hash", "window",
            "candidates", "accounting", "cost", "definitions"} < tree.keys()  # fmt: skip
    assert tree["verdict"] == tree["candidates"]["fp8"]["verdict"] == "reject"
    one = tree["candidates"]["fp8"]
    assert {
        "verdict",
        "reason",
        "coverage",
        "pairs",
        "families",
        "metrics",
        "excluded",
        "undefined",
    } <= one.keys()
    assert {"sampled", "complete", "excluded", "pending"} <= one["pairs"].keys()
    assert set(one["families"]) == {"latency", "quality", "reliability"}
    for figures in one["metrics"].values():
        assert {"primary", "candidate", "control", "reference", "delta", "vs_primary", "interval",
                "margin", "unit", "state", "pairs", "blocks", "projected", "sentence"} <= figures.keys()  # fmt: skip
        assert figures["state"] in STATES
        assert figures["unit"] in {"ratio", "share"}
        assert len(figures["interval"]) == 2
    assert {"tpot", "e2e", "failure"} <= tree["definitions"].keys()
    arm = tree["accounting"]["arms"]["fp8"]
    assert arm["eligible"] == arm["sampled"] + sum(arm["skipped"].values())
    assert tree["window"]["from"] == "2026-09-21T14:13:20+00:00"


def test_infinity_never_appears():
    """A dead candidate's times are null, and an open end is null."""
    tree = report("fp8", dead=True)
    json.dumps(tree, allow_nan=False)
    e2e = tree["candidates"]["fp8"]["metrics"]["e2e.p95"]
    assert (e2e["candidate"], e2e["delta"], e2e["interval"], e2e["state"]) == (
        None, None, [None, None], "open")  # fmt: skip
    assert e2e["primary"] is not None


def test_no_verdict_on_top_with_several_candidates():
    """It would be nobody's; each candidate has its own, and its own comparison."""
    tree = report("fp8", "specdec")
    assert "verdict" not in tree
    assert tree["comparison"] == {"fp8": "id-fp8", "specdec": "id-specdec"}


def test_markdown_shows_what_the_json_says():
    """The verdict first, a row a metric with its figures, the sentences, the accounting."""
    text = markdown(json.loads(json.dumps(report("fp8"))))
    assert text.index("## fp8: REJECT") < text.index("| tpot.mean ") < text.index("## Accounting")
    row = next(line for line in text.splitlines() if line.startswith("| tpot.mean"))
    assert "+5.0 %" in row
    assert "**FAIL**" in row
    lengths = {len(line) for line in text.splitlines() if line.startswith("| ") and "tpot" in line}
    assert len(lengths) == 1
    assert "excluded: warm_up 70" in text
    assert "undefined in some metrics: token_source 12." in text
    assert "nan" not in text
    assert "inf" not in text.replace("information", "").replace("infinite", "")


@pytest.mark.parametrize(("slower", "code", "word"), [(1.15, 1, "reject"), (1.0, 3, "hold")])
def test_the_gate_s_exit_codes(slower, code, word):
    """1 for a written reject, 3 for a hold; the line says who and why, on one line."""
    answer = gate(report("fp8", slower=slower))
    assert (answer.code, answer.line.split(": ")[:2]) == (code, ["fp8", word])
    assert "\n" not in answer.line


def test_the_gate_promotes_only_on_the_word():
    """0 stands for `promote` alone; a word of tomorrow holds."""
    tree = report("fp8")
    tree["candidates"]["fp8"]["verdict"] = "promote"
    assert gate(tree).code == 0
    tree["candidates"]["fp8"]["verdict"] = "perhaps"
    assert gate(tree).code == 3


def test_the_gate_without_a_verdict_holds():
    """No report: 3 with the reason, as JSON too."""
    assert gate(None, why_none="the store cannot be reached").code == 3
    answer = gate(None, form="json", why_none="the store cannot be reached")
    assert json.loads(answer.line)["reason"] == "the store cannot be reached"


def test_the_gate_wants_a_name_among_several():
    """A usage mistake, 2, that names the candidates; an unknown name likewise."""
    tree = report("fp8", "specdec")
    assert (gate(tree).code, gate(tree, "fp9").code) == (2, 2)
    assert "fp8, specdec" in gate(tree).line
    answer = gate(tree, "specdec", "json")
    assert answer.code == 1
    assert json.loads(answer.line).keys() == {
        "experiment", "comparison", "candidate", "verdict", "reason", "config_hash",
        "judged_at"}  # fmt: skip
    assert json.loads(answer.line)["comparison"] == "id-specdec"


def test_the_head_has_builds_and_how_long():
    """Which engines, from when until when, and how long that is."""
    settings = Settings(
        "exp", "c1", ("fp8",), {"fp8": "id"}, None, POLICY,
        builds={"primary": "vllm 0.31", "fp8": "vllm 0.32 | fp8", "control": ""},
    )  # fmt: skip
    one, counted = part(1.0)
    tree = document(settings, {"fp8": one}, {"fp8": counted}, {})
    assert tree["builds"] == {"primary": "vllm 0.31", "fp8": "vllm 0.32 | fp8"}
    assert tree["window"]["span_s"] == 60
    text = markdown(tree)
    assert "+00:00 (60 s)." in text
    assert "Builds: primary: vllm 0.31; fp8: vllm 0.32 ¦ fp8." in text
    assert "(? to ?)" not in text


def test_pending_is_what_the_accounting_calls_so():
    """What is stored and waits for its window has a word of its own."""
    one = report("fp8")["candidates"]["fp8"]["pairs"]
    assert (one["pending"], one["waiting"]) == (10, 0)
    text = markdown(report("fp8"))
    assert "pending: 10; stored, in windows that are still open: 0." in text


def test_why_requests_failed_and_what_was_cut():
    """By arm: how answers ended, with counts; lengths of what was cut beside what was kept."""
    lengths = {
        "kept": {"answers": 90, "bytes_mean": 900.0, "bytes_p50": 800.0, "output_tokens_mean": 50.0},
        "cut": {"answers": 3, "bytes_mean": 9e6, "bytes_p50": 9e6, "output_tokens_mean": None},
    }  # fmt: skip
    end = {"outcome": "http_error", "transport": "complete", "status": 503}
    tree = report("fp8") | {
        "answered": {
            "fp8": {"ends": [{**end, "failed": True, "answers": 1234}], "lengths": lengths}
        }
    }
    text = markdown(tree)
    row = next(line for line in text.splitlines() if "http_error" in line)
    assert [cell.strip() for cell in row.split("|")[1:-1]] == [
        "fp8", "http_error", "complete", "503", "**yes**", "1,234"]  # fmt: skip
    assert "| fp8 | " in text
    assert "9,000,000" in text
    assert "How answers ended" not in markdown(report("fp8"))


def test_a_reject_says_since_when_and_the_way_out():
    """It stays for its comparison; another build, configuration or policy starts a new one."""
    samples = {"tpot.mean": mean_of(*(np.full(1320, 20.0),) * 2, 22)}
    evidence = Evidence(
        "fp8", "control", samples, coverage=1.0, rejected="it was slow", rejected_ns=1_790_000_000 * 10**9
    )  # fmt: skip
    made = candidate_part(evidence, judge(POLICY, evidence), Counted())
    assert (made["verdict"], made["rejected_since"]) == ("reject", "2026-09-21T14:13:20+00:00")
    tree = report("fp8")
    tree["candidates"]["fp8"] = made
    assert "Rejected since 2026-09-21T14:13:20+00:00. A reject stays" in markdown(tree)
    assert "policy starts a new comparison" in markdown(tree)


def test_two_options_alone_and_together():
    """Candidates that try out A, B and both: what they do to each other, on the log scale."""
    names = ("a", "b", "ab")
    settings = Settings(
        "exp", "c1", names, {name: name for name in names}, None, POLICY,
        factors={"a": {"q": "fp8"}, "b": {"spec": "on"}, "ab": {"q": "fp8", "spec": "on"}},
    )  # fmt: skip
    figures = {"unit": "ratio", "delta": 0.0}
    parts = {
        name: report(name)["candidates"][name]
        | {"metrics": {"tpot.mean": report(name)["candidates"][name]["metrics"]["tpot.mean"] | figures | {"delta": delta}}}
        for name, delta in (("a", -0.1), ("b", -0.2), ("ab", -0.19))
    }  # fmt: skip
    tree = document(settings, parts, {}, {})
    (one,) = tree["factors"]
    assert one["options"] == ["q=fp8", "spec=on"]
    assert one["metrics"]["tpot.mean"]["interaction"] == pytest.approx(0.125)
    assert one["metrics"]["tpot.mean"]["collective"] == pytest.approx(-0.19)
    assert "## q=fp8 and spec=on" in markdown(tree)
    assert report("fp8")["factors"] == []


def test_an_old_verdict_holds_where_an_age_is_asked_for():
    """The gate's --max-age: whatever it said, it is held, with its age."""
    tree = report("fp8")
    tree["candidates"]["fp8"] |= {"judged_at": "2026-09-21T14:13:20+00:00", "verdict": "promote"}
    now_s = 1_790_000_000 + 90
    assert gate(aged(tree, now_s, 90)).code == 0
    held = gate(aged(tree, now_s, 60))
    assert held.code == 3
    assert "the verdict (promote) is 90 s old, older than 60 s" in held.line
    assert aged(None, now_s, 60) is None


def test_words_of_the_traffic_do_not_steer_a_terminal_or_a_table():
    """Model names and builds are text: no control characters, no cell borders, no markup, no novel."""
    assert plain("a\x1b[31m|<b>`x`\n") == "a�[31m¦‹b›'x'�"
    assert len(plain("x" * 500)) == 80


def test_the_head_says_by_which_policy():
    """Default or not, what is gated with its margin, min_span, warm-up: one line; and as keys."""
    tree = report("fp8")
    assert tree["policy"]["default"] is False
    assert tree["policy"]["gated"].keys() == POLICY.metrics.keys()
    judged = next(line for line in markdown(tree).splitlines() if line.startswith("Judged by"))
    assert judged.startswith("Judged by a policy of its own: ")
    for name, one in POLICY.metrics.items():
        assert f"{name} {one.margin}" in judged
    default = document(Settings("exp", "c1", (), {}), {}, {}, {})
    assert (
        "Judged by the default policy: ttft_any.p50 5%, ttft_any.p95 10%, tpot.mean 5%, "
        "e2e.p95 10%, failure.rate 0.5pp, mismatch.rate 2pp; min_span 1 h 0 min; "
        "warm-up 200 pairs." in markdown(default).splitlines()
    )
    assert "Judged by" not in markdown({k: v for k, v in tree.items() if k != "policy"})


@pytest.mark.parametrize(
    ("here", "told"), [(0.02, True), (0.01, False), (-0.01, False), (0.0, False)]
)
@pytest.mark.parametrize("better", ["lower", "higher"])
def test_a_segment_is_named_only_where_it_is_worse_than_the_whole(better, here, told):
    """`Worst segment: +0.00 pp` tells nobody anything."""
    sign = -1 if better == "higher" else 1
    one = {"segment": "model", "value": "m", "metric": "x.p50", "delta": sign * here,
           "unit": "ratio", "pairs": 7}  # fmt: skip
    parts = {"looked_at": 3, "found": [], "worst": one, "disagreement": None}
    (line,) = segments(parts, {"x.p50": {"delta": sign * 0.01, "better": better}})
    assert ("the worst is x.p50 where model is m" in line) is told
    assert ("none is worse than the whole" in line) is not told
    assert "the worst is" in segments(parts, {})[0]
