"""Figures and tables as Markdown, and where figures come from. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Result = Mapping[str, Any]
Show = Callable[[float], str]


def provenance(result: Result) -> str:
    """Where and when it was measured."""
    machine, versions = result["machine"], result["versions"]
    said = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    text = (
        f"Measured {result['at'][:10]} on {machine['cores']} cores of {machine['cpu']}, "
        f"{machine['memory_gib']} GiB, Linux {machine['kernel']}, Python {machine['python']}; {said}."
    )
    missing = result.get("missing", {})
    return text + "".join(f" **{name} was missing: {how}.**" for name, how in missing.items())


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, the others are figures."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def digits(value: float) -> str:
    """Three significant digits, thousands separated."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:#.3g}".rstrip(".")


def with_spread(figure: Mapping[str, float], show: Show = digits) -> str:
    """`median (low to high)`."""
    return f"{show(figure['median'])} ({show(figure['low'])} to {show(figure['high'])})"
