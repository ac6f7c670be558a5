"""How answers ended, in Markdown: why they failed, and what was cut off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.report.table import table

Tree = Mapping[str, Any]


def answers(answered: Mapping[str, Tree]) -> list[str]:
    """Lines, ending with a white one; none where nothing is known."""
    rows = [
        (
            arm,
            end["outcome"],
            end["transport"],
            str(end["status"] or ""),
            "**yes**" if end["failed"] else "no",
            f"{end['answers']:,}",
        )
        for arm, one in answered.items()
        for end in one["ends"]
    ]
    if not rows:
        return []
    head = ("arm", "outcome", "transport", "status", "failed", "answers")
    rule = "All arrivals under this configuration, the warm-up too."
    return ["## How answers ended", "", rule, "", *table(head, rows), *_lengths(answered)]


def _lengths(answered: Mapping[str, Tree]) -> list[str]:
    """What was cut at `answer_bytes` beside what was kept: longer answers are what is left out."""
    rows = [
        (
            arm,
            kind,
            f"{lengths['answers']:,}",
            _number(lengths["bytes_p50"]),
            _number(lengths["bytes_mean"]),
            _number(lengths["output_tokens_mean"]),
        )
        for arm, one in answered.items()
        for kind, lengths in one.get("lengths", {}).items()
    ]
    if not rows:
        return []
    said = (
        "Answers longer than `limits.answer_bytes` were cut: how long they are is known, what they "
        "say is not, nor always how they ended. Times and outputs are those of the shorter ones:"
    )
    head = ("arm", "answers that were", "count", "bytes, median", "bytes, mean", "tokens, mean")
    return [said, "", *table(head, rows)]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
