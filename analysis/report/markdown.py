"""report.json as Markdown: what a person reads first, first; made of that tree and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.cost import sentence as cost_sentence
from analysis.report.answers import answers
from analysis.report.candidate import candidate
from analysis.report.interactions import interactions
from analysis.report.table import reasons, table
from analysis.words import plain

Tree = Mapping[str, Any]
NOT_SENT = ("connect_failed", "breaker_open", "unsent")
TAPPED = (
    "Attached as a tap: production did not pass through shadow. `primary` is a replica of the "
    "baseline, which got the gateway's copies as the candidates did."
)


def markdown(report: Tree) -> str:
    """The whole report as Markdown, ending with a line break."""
    window = report["window"]
    lines = [f"# {report['experiment']}", "", _arrivals(window), *_builds(report.get("builds"))]
    lines += [*_policy(report.get("policy")), ""]
    if report.get("attach") == "tap":
        lines += [TAPPED, ""]
    for name, part in report["candidates"].items():
        lines += candidate(name, part)
    if not report["candidates"]:
        lines += ["No candidate is configured, or none was judged yet.", ""]
    lines += interactions(report.get("factors", []))
    lines += answers(report.get("answered", {}))
    lines += _cost(report.get("cost", {}))
    lines += _accounting(report["accounting"]["arms"])
    lines += ["## What the figures mean", ""]
    lines += [f"- **{name}**: {meaning}" for name, meaning in report["definitions"].items()]
    identity = f"configuration {report['config_hash']}, policy {report['policy_hash']}"
    return "\n".join([*lines, "", f"Report schema {report['schema']}; {identity}.", ""])


def _arrivals(window: Tree) -> str:
    if not window["from"]:
        return "Arrivals: no closed window yet."
    span_s = window.get("span_s")
    lasted = "" if span_s is None else f" ({_duration(span_s)})"
    return f"Arrivals: {window['from']} to {window['until']}{lasted}."


def _duration(seconds: int) -> str:
    """`2 d 3 h`, `1 h 5 min`, `61 s`: two units at the most."""
    for unit, size, below, small in (("d", 86400, "h", 3600), ("h", 3600, "min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // small} {below}"
    return f"{seconds // 60} min" if seconds >= 120 else f"{seconds} s"


def _builds(builds: Mapping[str, str] | None) -> list[str]:
    told = "; ".join(f"{arm}: {plain(build)}" for arm, build in (builds or {}).items())
    return ["", f"Builds: {told}."] if told else []


def _policy(policy: Tree | None) -> list[str]:
    """By what it was judged; nothing where only the policy's hash is known."""
    if policy is None:
        return []
    which = "the default policy" if policy["default"] else "a policy of its own"
    gated = ", ".join(_gated(name, one) for name, one in policy["gated"].items())
    told = (
        f"Judged by {which}: {gated or 'no metric gated'}; "
        f"min_span {_duration(round(policy['min_span_s']))}; "
        f"warm-up {policy['warm_up_pairs']:,} pairs."
    )
    return ["", told]


def _gated(name: str, one: Tree) -> str:
    """`tpot.mean 5%`, with what is not as usual."""
    goal = "" if one["goal"] == "not_worse" else f", {one['goal']}"
    return f"{name} {one['margin']}{goal}{'' if one['critical'] else ', not critical'}"


def _cost(costs: Tree) -> list[str]:
    """What mirroring costs production, where it was looked at."""
    if "mirroring" not in costs:
        return []
    return ["## What mirroring costs", "", cost_sentence(costs["mirroring"]), ""]


def _accounting(arms: Tree) -> list[str]:
    columns = ("arm", "eligible", "sampled", "captured", "pending", "lost", "dropped", "skipped")
    rows = [
        (
            name,
            *(f"{arm[key]:,}" for key in columns[1:6]),
            reasons(arm["dropped"]),
            reasons(arm["skipped"]),
        )
        for name, arm in arms.items()
    ]
    rule = "eligible = sampled + skipped; sampled = captured + dropped + pending + lost."
    said = table(columns, rows)
    return ["## Accounting", "", rule, "", *said, *_not_reached(arms), *_unreadable(arms)]


def _not_reached(arms: Tree) -> list[str]:
    """Records of requests that were never sent; nothing where all were."""
    told = [
        f"{name}: {reasons(counts)}"
        for name, arm in arms.items()
        if (counts := {key: arm[key] for key in NOT_SENT if arm.get(key)})
    ]
    return [f"Captured, and never sent to the arm: {'; '.join(told)}.", ""] if told else []


def _unreadable(arms: Tree) -> list[str]:
    """Answers that our reader could not follow; nothing where it could."""
    counts = {name: arm["unreadable"] for name, arm in arms.items() if arm.get("unreadable")}
    told = f"Not all could be read of (the bytes are kept): {reasons(counts)}."
    return [told, ""] if counts else []
