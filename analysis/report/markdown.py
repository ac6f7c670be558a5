"""report.json as Markdown: what a person reads first, first; made of that tree and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.cost import sentence as cost_sentence
from analysis.report.answers import answers
from analysis.report.interactions import interactions
from analysis.report.table import table
from analysis.scale import change, ends
from analysis.segments import sentence
from analysis.words import plain

Tree = Mapping[str, Any]
DELTAS = ("delta", "vs_primary")
SIDES = ("primary", "candidate", "control")
STATE = ("margin", "state")
NOT_SENT = ("connect_failed", "breaker_open", "unsent")
TAPPED = (
    "Attached as a tap: production did not pass through shadow. `primary` is a replica of the "
    "baseline, which got the gateway's copies as the candidates did."
)
MARKS = {"pass": "pass", "fail": "**FAIL**", "open": "open", "not_gated": "not gated"}


def markdown(report: Tree) -> str:
    """The whole report as Markdown, ending with a line break."""
    window = report["window"]
    lines = [f"# {report['experiment']}", "", _arrivals(window), *_builds(report.get("builds")), ""]
    if report.get("attach") == "tap":
        lines += [TAPPED, ""]
    for name, part in report["candidates"].items():
        lines += _candidate(name, part)
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
        *_rejected(part.get("rejected_since")),
        "",
        (
            f"{pairs['complete']:,} pairs judged against {part['reference']}{_copies(pairs)}; "
            f"coverage {coverage}; excluded: {excluded}; pending: {pairs['pending']:,}; "
            f"stored, in windows that are still open: {pairs.get('waiting', 0):,}."
        ),
        *_undefined(part.get("undefined", {})),
        *_probes(part.get("probes")),
        "",
        *table(
            ("metric", "primary", name, "control", "delta", "vs primary", "interval", *STATE),
            [_row(metric, figures) for metric, figures in metrics],
        ),
        *[f"- {figures['sentence']}" for _, figures in metrics],
        *[f"- Note: {warning}." for warning in part["warnings"]],
        *segments(part.get("segments")),
        "",
    ]


def _rejected(since: str | None) -> list[str]:
    """Since when, and the way out."""
    if since is None:
        return []
    way = "another build, configuration or policy starts a new comparison"
    return ["", f"Rejected since {since}. A reject stays for its comparison: {way}."]


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


def _copies(pairs: Tree) -> str:
    """What a pair is where the candidate gets a request several times."""
    copies = pairs.get("copies", 1)
    return f", {copies} copies of each request (which count as one)" if copies > 1 else ""


def _probes(probes: Tree | None) -> list[str]:
    """How many greedy probes were compared, and why others were not; nothing without any."""
    if not probes or not (probes["complete"] or probes["excluded"]):
        return []
    others = _reasons(probes["excluded"])
    told = "" if others == "0" else f"; not compared: {others}"
    return [f"Greedy probes compared with the control's: {probes['complete']:,}{told}."]


def _row(name: str, figures: Tree) -> tuple[str, ...]:
    of = figures["unit"]
    values = (_value(figures[side], figures["value_unit"]) for side in SIDES)
    low, high = figures["interval"]
    sign = -1 if figures["better"] == "higher" else 1
    return (
        name,
        *values,
        *("" if figures[key] is None else change(figures[key], of) for key in DELTAS),
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
            _reasons(arm["dropped"]),
            _reasons(arm["skipped"]),
        )
        for name, arm in arms.items()
    ]
    rule = "eligible = sampled + skipped; sampled = captured + dropped + pending + lost."
    said = table(columns, rows)
    return ["## Accounting", "", rule, "", *said, *_not_reached(arms), *_unreadable(arms)]


def _not_reached(arms: Tree) -> list[str]:
    """Records of requests that were never sent; nothing where all were."""
    told = [
        f"{name}: {_reasons(counts)}"
        for name, arm in arms.items()
        if (counts := {key: arm[key] for key in NOT_SENT if arm.get(key)})
    ]
    return [f"Captured, and never sent to the arm: {'; '.join(told)}.", ""] if told else []


def _unreadable(arms: Tree) -> list[str]:
    """Answers that our reader could not follow; nothing where it could."""
    counts = {name: arm["unreadable"] for name, arm in arms.items() if arm.get("unreadable")}
    told = f"Not all could be read of (the bytes are kept): {_reasons(counts)}."
    return [told, ""] if counts else []


def _reasons(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {n:,}" for reason, n in counts.items()) or "0"
