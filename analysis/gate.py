"""The gate: a stored verdict as an exit code and one line. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

EXIT = {"promote": 0, "reject": 1, "hold": 3}
HOLD = EXIT["hold"]
USAGE = 2
SKEW_S = 60
"""What the clocks of two hosts may differ by."""
NO_CANDIDATE = "no candidate is configured"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the gate says: `line` belongs on stdout, or on stderr where `code` is 2."""

    code: int
    line: str


def gate(
    report: Mapping[str, Any] | None,
    candidate: str | None = None,
    form: Literal["text", "json"] = "text",
    why_none: str = "no verdict was written yet",
    known: Collection[str] | None = None,
    experiment: str | None = None,
) -> Answer:
    """From a stored report to the gate's answer.

    0 and 1 need a verdict that was written; everything else that is no mistake of usage holds.

    Args:
        report: report.json of verdicts that were written; None where there is none.
        candidate: which; required where there are several.
        form: the line is text, or JSON with the keys of the contract.
        why_none: the reason that is given where there is no report, or the candidate is not in it.
        known: the experiment's candidates, which may be none; without it, those of the report.
        experiment: its name, for the answer where there is no report.
    """
    parts = report["candidates"] if report is not None else {}
    names = list(parts if known is None else known)
    why_none = NO_CANDIDATE if known is not None and not names else why_none
    if candidate is None and len(names) > 1:
        return Answer(USAGE, f"several candidates: say which with --candidate: {', '.join(names)}")
    name = candidate if candidate is not None else next(iter(names), None)
    if names and name not in names:
        return Answer(USAGE, f"no candidate is named {name}; there are: {', '.join(names)}")
    if report is None or name not in parts:
        nothing = {"verdict": "hold", "reason": why_none, "candidate": name}
        return _answer(nothing | {"experiment": experiment}, form)
    comparison = report["comparison"]
    facts = {
        "experiment": report["experiment"],
        "comparison": comparison[name] if isinstance(comparison, Mapping) else comparison,
        "candidate": name,
        "verdict": parts[name]["verdict"],
        "reason": parts[name]["reason"],
        "config_hash": report["config_hash"],
        "judged_at": parts[name].get("judged_at"),
        "waivers": parts[name].get("waivers", {}),
    }
    return _answer(facts, form)


def aged(report: Mapping[str, Any] | None, now_s: float, most_s: float) -> dict[str, Any] | None:
    """The report with every verdict held that was judged longer ago than this, or in the future.

    Args:
        report: of verdicts that were written.
        now_s: the wall clock, seconds since 1970.
        most_s: how old a verdict may be.
    """
    if report is None:
        return None
    parts = {name: _aged(part, now_s, most_s) for name, part in report["candidates"].items()}
    return {**report, "candidates": parts}


def _aged(part: Mapping[str, Any], now_s: float, most_s: float) -> dict[str, Any]:
    age_s = now_s - datetime.fromisoformat(part["judged_at"]).timestamp()
    if -SKEW_S <= age_s <= most_s:
        return dict(part)
    if age_s < 0:
        ahead = f"{-age_s:.0f} s in the future: a clock was set back since, or is wrong"
        reason = f"the verdict ({part['verdict']}) is of {ahead}"
        return {**part, "verdict": "hold", "reason": reason}
    reason = f"the verdict ({part['verdict']}) is {age_s:.0f} s old, older than {most_s:g} s"
    return {**part, "verdict": "hold", "reason": reason}


def _answer(facts: Mapping[str, Any], form: str) -> Answer:
    keys = (
        "experiment",
        "comparison",
        "candidate",
        "verdict",
        "reason",
        "config_hash",
        "judged_at",
    )
    code = EXIT.get(facts["verdict"], HOLD)
    if form == "json":
        waived = {"waivers": facts["waivers"]} if facts.get("waivers") else {}
        return Answer(code, json.dumps({key: facts.get(key) for key in keys} | waived))
    who = f"{facts['candidate']}: " if facts.get("candidate") else ""
    return Answer(code, f"{who}{facts['verdict']}{_waived(facts)}: {facts['reason']}")


def _waived(facts: Mapping[str, Any]) -> str:
    """`promote (waived: e2e.p95 by ann until …)`: what people traded knowingly is never silent."""
    waivers = facts.get("waivers") or {}
    told = "; ".join(f"{name} by {w['by']} until {w['until']}" for name, w in waivers.items())
    return f" (waived: {told})" if told else ""
