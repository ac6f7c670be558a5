"""The gate: a stored verdict as an exit code and one line. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

EXIT = {"promote": 0, "reject": 1, "hold": 3}
HOLD = EXIT["hold"]
USAGE = 2


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
) -> Answer:
    """From a stored report to the gate's answer.

    0 and 1 need a verdict that was written; everything else that is no mistake of usage holds.

    Args:
        report: report.json of verdicts that were written; None where there is none.
        candidate: which; required where there are several.
        form: the line is text, or JSON with the keys of the contract.
        why_none: the reason that is given where there is no report.
    """
    if report is None:
        nothing = {"verdict": "hold", "reason": why_none, "candidate": candidate}
        return _answer(nothing, form)
    parts = report["candidates"]
    if candidate is None and len(parts) > 1:
        return Answer(USAGE, f"several candidates: say which with --candidate: {', '.join(parts)}")
    name = candidate if candidate is not None else next(iter(parts), None)
    if name not in parts:
        known = ", ".join(parts) or "none"
        return Answer(USAGE, f"there is no candidate {name}; this experiment has: {known}")
    comparison = report["comparison"]
    facts = {
        "experiment": report["experiment"],
        "comparison": comparison[name] if isinstance(comparison, Mapping) else comparison,
        "candidate": name,
        "verdict": parts[name]["verdict"],
        "reason": parts[name]["reason"],
        "config_hash": report["config_hash"],
    }
    return _answer(facts, form)


def _answer(facts: Mapping[str, Any], form: str) -> Answer:
    keys = ("experiment", "comparison", "candidate", "verdict", "reason", "config_hash")
    code = EXIT.get(facts["verdict"], HOLD)
    if form == "json":
        return Answer(code, json.dumps({key: facts.get(key) for key in keys}))
    who = f"{facts['candidate']}: " if facts.get("candidate") else ""
    return Answer(code, f"{who}{facts['verdict']}: {facts['reason']}")
