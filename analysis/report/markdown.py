"""report.json as Markdown: what a person reads first, first; made of that tree and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from analysis.scale import change, ends
from analysis.segments import sentence

Tree = Mapping[str, Any]
SIDES = ("primary", "candidate", "control")
MARKS = {"pass": "pass", "fail": "**FAIL**", "open": "open", "not_gated": "not gated"}


def markdown(report: Tree) -> str:
    """The whole report as Markdown, ending with a line break."""
    window = report["window"]
    span = f"{window['from']} to {window['until']}" if window["from"] else "no closed window yet"
    lines = [f"# {report['experiment']}", "", f"Arrivals: {span}.", ""]
    for name, part in report["candidates"].items():
        lines += _candidate(name, part)
    lines += _accounting(report["accounting"]["arms"])
    lines += ["## What the figures mean", ""]
    lines += [f"- **{name}**: {meaning}" for name, meaning in report["definitions"].items()]
    identity = f"configuration {report['config_hash']}, policy {report['policy_hash']}"
    return "\n".join([*lines, "", f"Report schema {report['schema']}; {identity}.", ""])


def _candidate(name: str, part: Tree) -> list[str]:
    metrics = part["metrics"].items()
    pairs = part["pairs"]
    coverage = "unknown" if part["coverage"] is None else f"{part['coverage']:.1%}"
    excluded = ", ".join(f"{reason} {n:,}" for reason, n in part["excluded"].items()) or "none"
    return [
        f"## {name}: {part['verdict'].upper()}",
        "",
        *_waivers(part.get("waivers", {})),
        part["reason"],
        "",
        (
            f"{pairs['complete']:,} pairs judged against {part['reference']}; "
            f"coverage {coverage}; excluded: {excluded}; pending: {pairs['pending']:,}."
        ),
        *_undefined(part.get("undefined", {})),
        "",
        *_table(
            ("metric", "primary", name, "control", "delta", "interval", "margin", "state"),
            [_row(metric, figures) for metric, figures in metrics],
        ),
        *[f"- {figures['sentence']}" for _, figures in metrics],
        *[f"- Note: {warning}." for warning in part["warnings"]],
        *segments(part.get("segments")),
        "",
    ]


def _waivers(waivers: Tree) -> list[str]:
    """What people took out of the verdict, before anything else is said."""
    told = [
        f"**Waived**: {name}, by {waiver['by']}, until {waiver['until']}: {waiver['reason']}."
        for name, waiver in waivers.items()
    ]
    return [*told, ""] if told else []


def segments(parts: Tree | None) -> list[str]:
    """What parts of the traffic say: the worst, and where they disagree with the whole."""
    if not parts or not parts["worst"]:
        return []
    looked = f"Segments (exploratory, {parts['looked_at']} looked at)"
    told = [f"- {looked}: the worst is {sentence(parts['worst'])}."]
    if parts["disagreement"]:
        told.append(f"- **Segments disagree**: {parts['disagreement']}.")
    return told


def _undefined(counts: Mapping[str, int]) -> list[str]:
    """Which judged pairs say nothing of some metrics; nothing where there are none."""
    told = ", ".join(f"{reason} {n:,}" for reason, n in counts.items())
    return [f"Judged, but undefined in some metrics: {told}."] if told else []


def _row(name: str, figures: Tree) -> tuple[str, ...]:
    of = figures["unit"]
    values = (_value(figures[side], figures["value_unit"]) for side in SIDES)
    low, high = figures["interval"]
    sign = -1 if figures["better"] == "higher" else 1
    return (
        name,
        *values,
        "" if figures["delta"] is None else change(figures["delta"], of),
        "" if low is None and high is None else ends(low, high, of),
        "" if figures["margin"] is None else change(sign * figures["margin"], of),
        MARKS[figures["state"]],
    )


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit == "share":
        return f"{value:.2%}"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}"


def _accounting(arms: Tree) -> list[str]:
    columns = ("arm", "eligible", "sampled", "captured", "pending", "lost", "dropped", "skipped")
    rows = [
        (
            name,
            *(f"{arm[key]:,}" for key in columns[1:6]),
            _reasons(arm["dropped"]),
            _reasons(arm["skipped"]),
        )
        for name, arm in arms.items()
    ]
    rule = "eligible = sampled + skipped; sampled = captured + dropped + pending + lost."
    return ["## Accounting", "", rule, "", *_table(columns, rows), *_unreadable(arms)]


def _unreadable(arms: Tree) -> list[str]:
    """Answers that our reader could not follow; nothing where it could."""
    counts = {name: arm["unreadable"] for name, arm in arms.items() if arm.get("unreadable")}
    told = f"Not all could be read of (the bytes are kept): {_reasons(counts)}."
    return [told, ""] if counts else []


def _reasons(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {n:,}" for reason, n in counts.items()) or "0"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A table that also reads well as plain text: columns padded, figures to the right."""
    grid = [list(head), *[list(row) for row in rows]]
    widths = [max(len(row[i]) for row in grid) for i in range(len(grid[0]))]
    rule = [("-" * (width - 1) + ":") if i else "-" * width for i, width in enumerate(widths)]
    lines = [_line(grid[0], widths), "| " + " | ".join(rule) + " |"]
    return [*lines, *[_line(row, widths) for row in grid[1:]], ""]


def _line(cells: list[str], widths: list[int]) -> str:
    padded = [
        c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))
    ]
    return "| " + " | ".join(padded) + " |"
