"""Tables in Markdown that read well as plain text too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A table that also reads well as plain text: columns padded, figures to the right."""
    grid = [list(head), *[list(row) for row in rows]]
    widths = [max(2, *(len(row[i]) for row in grid)) for i in range(len(grid[0]))]
    rule = [("-" * (width - 1) + ":") if i else "-" * width for i, width in enumerate(widths)]
    lines = [_line(grid[0], widths), "| " + " | ".join(rule) + " |"]
    return [*lines, *[_line(row, widths) for row in grid[1:]], ""]


def _line(cells: list[str], widths: list[int]) -> str:
    padded = [
        c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))
    ]
    return "| " + " | ".join(padded) + " |"


def reasons(counts: Mapping[str, int], nothing: str = "0") -> str:
    """Counts by reason, in one line."""
    return ", ".join(f"{reason} {n:,}" for reason, n in counts.items()) or nothing
