"""Two options that candidates try out alone and together, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.report.table import table

Tree = Mapping[str, Any]

INTERACTION = (
    "Interaction: how far both together are from the product of what each does alone. "
    "Estimates without an interval."
)


def interactions(found: list[Tree]) -> list[str]:
    """Two options that candidates try out alone and together."""
    lines = []
    for one in found:
        a, b = one["options"]
        rows = [
            (
                name,
                *(f"{x * 100:+.1f} %" for x in (*f["simple"], f["collective"], f["interaction"])),
            )
            for name, f in one["metrics"].items()
        ]
        lines += [f"## {a} and {b}", "", INTERACTION, ""]
        lines += table(("metric", f"{a} alone", f"{b} alone", "both", "interaction"), rows)
    return lines
