"""report.json keeps its contract, Markdown is made of it, and the gate reads nothing else."""

from __future__ import annotations

import json

import numpy as np
import pytest

from analysis.accounting import Account
from analysis.case import Evidence
from analysis.gate import gate
from analysis.judge import judge
from analysis.policy import Policy
from analysis.report import document, markdown
from analysis.report.document import Counted, candidate_part
from analysis.settings import Settings

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
