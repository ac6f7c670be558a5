"""One candidate's part of the report in Markdown: the verdict and why, then what it stands on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.report.table import reasons, table
from analysis.scale import change, ends
from analysis.segments import sentence

Tree = Mapping[str, Any]
SIDES = ("primary", "candidate", "control")
COLUMNS = ("metric", *SIDES, "delta", "vs primary", "interval")
MARKS = {"pass": "pass", "fail": "**FAIL**", "open": "open", "not_gated": "not gated"}


def candidate(name: str, part: Tree) -> list[str]:
    """The verdict and why; what is gated; how many pairs that stands on; the rest."""
    gated = {key: one for key, one in part["metrics"].items() if one["margin"] is not None}
    others = {key: one for key, one in part["metrics"].items() if key not in gated}
    return [
        f"## {name}: {part['verdict'].upper()}",
        "",
        *_waivers(part.get("waivers", {})),
        part["reason"],
        *_rejected(part.get("rejected_since")),
        "",
        f"{_families(part['families'])}.",
        "",
        *_table((*COLUMNS, "margin", "pairs", "state"), name, gated),
        *[f"- {figures['sentence']}" for figures in gated.values()],
        "",
        _counts(part),
        *_undefined(part.get("undefined", {})),
        *_probes(part.get("probes")),
        "",
        *[f"- Note: {warning}." for warning in part["warnings"]],
        *segments(part.get("segments"), part["metrics"]),
        "",
        *(["Not gated:", ""] if others else []),
        *_table((*COLUMNS, "pairs"), name, others),
    ]


def _families(families: Tree) -> str:
    told = [f"{name} {MARKS[family['state']]}" for name, family in families.items()]
    return "By family: " + ", ".join(told)


def _table(columns: tuple[str, ...], name: str, metrics: Tree) -> list[str]:
    """Metrics under these columns; nothing without any."""
    rows = [_row(metric, figures) for metric, figures in metrics.items()]
    head = [name if column == "candidate" else column for column in columns]
    return table(head, [[row[column] for column in columns] for row in rows]) if rows else []


def _counts(part: Tree) -> str:
    """On how many pairs it stands, and what became of the others."""
    pairs = part["pairs"]
    coverage = "unknown" if part["coverage"] is None else f"{part['coverage']:.1%}"
    gaps = f" (unknown: {reasons(part['gaps'])})" if part.get("gaps") else ""
    return (
        f"{pairs['complete']:,} pairs judged{_against(part)}{_copies(pairs)}; "
        f"coverage {coverage}{gaps}; excluded: {reasons(part['excluded'], 'none')}; "
        f"pending: {pairs['pending']:,}; "
        f"stored, in windows that are still open: {pairs.get('waiting', 0):,}."
    )


def _against(part: Tree) -> str:
    """What they were judged against, where not all have the control's answer too."""
    pairs, reference = part["pairs"], part["reference"]
    controlled = pairs.get("controlled")
    if controlled is None or reference == "primary" or controlled >= pairs["complete"]:
        return f" against {reference}"
    return (
        f": {controlled:,} against {reference}, which decide; the other "
        f"{pairs['complete'] - controlled:,} have no answer of {reference} "
        "and count in `vs primary` alone"
    )


def _rejected(since: str | None) -> list[str]:
    """Since when, which figures are of now, and the way out."""
    if since is None:
        return []
    way = "another build, configuration or policy starts a new comparison"
    now = "The figures below are the present ones."
    return ["", f"Rejected since {since}. A reject stays for its comparison: {way}. {now}"]


def _waivers(waivers: Tree) -> list[str]:
    """What people took out of the verdict, before anything else is said."""
    told = [
        f"**Waived**: {name}, by {waiver['by']}, until {waiver['until']}: {waiver['reason']}."
        for name, waiver in waivers.items()
    ]
    return [*told, ""] if told else []


def segments(parts: Tree | None, whole: Tree) -> list[str]:
    """What parts of the traffic say: the worst, and where they disagree with the whole."""
    if not parts or not parts["worst"]:
        return []
    looked = f"Segments (exploratory, {parts['looked_at']} looked at)"
    none = "" if parts.get("found") else "none is surely beyond its margin"
    worst = f"the worst is {sentence(parts['worst'])}"
    if none and not _worse(parts["worst"], whole.get(parts["worst"]["metric"])):
        worst = "none is worse than the whole"
    told = [f"- {looked}: {'; '.join(filter(None, (none, worst)))}."]
    if parts["disagreement"]:
        told.append(f"- **Segments disagree**: {parts['disagreement']}.")
    return told


def _worse(segment: Tree, whole: Tree | None) -> bool:
    """Whether a segment's harm is more than everybody's; yes, where that is not known."""
    if whole is None or whole["delta"] is None or segment["delta"] is None:
        return True
    sign = -1 if whole["better"] == "higher" else 1
    return bool(sign * segment["delta"] > max(sign * whole["delta"], 0.0))


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
    others = reasons(probes["excluded"])
    told = "" if others == "0" else f"; not compared: {others}"
    return [f"Greedy probes compared with the control's: {probes['complete']:,}{told}."]


def _row(name: str, figures: Tree) -> dict[str, str]:
    """Cells by column."""
    of = figures["unit"]
    low, high = figures["interval"]
    sign = -1 if figures["better"] == "higher" else 1
    margin, primary = figures["margin"], figures["vs_primary"]
    return {
        "metric": name,
        **{side: _value(figures[side], figures["value_unit"]) for side in SIDES},
        "delta": "" if figures["delta"] is None else change(figures["delta"], of),
        "vs primary": "" if primary is None else change(primary, of),
        "interval": "" if low is None and high is None else ends(low, high, of),
        "margin": "" if margin is None else change(sign * margin, of),
        "pairs": f"{figures['pairs']:,}",
        "state": MARKS[figures["state"]],
    }


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit == "share":
        return f"{value:.2%}"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}{' ms' if unit == 'ms' else ''}"  # other units are in the names
