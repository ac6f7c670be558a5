"""How every arm's answers ended, why they failed, and how long those were that had to be cut."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from analysis.queries import sql
from analysis.settings import Settings

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

MOST = 20
"""Of each arm's ways to end, the most frequent ones are told."""


def answered(client: Client, settings: Settings) -> dict[str, Any]:
    """By arm: `ends`, the ways in which answers ended, and where some were cut `lengths`.

    It speaks of all arrivals under the present configuration, those of the warm-up too.
    """
    scope = {"experiment": settings.experiment, "config_hash": settings.config_hash}
    found: dict[str, Any] = {}
    any_cut = False
    for arm, outcome, transport, status, failed, answers, cut in client.query(
        sql("outcomes"), parameters=scope
    ).result_rows:
        any_cut |= cut > 0
        ends = found.setdefault(arm, {"ends": []})["ends"]
        if len(ends) < MOST:
            facts = {"outcome": outcome, "transport": transport, "status": status or None}
            ends.append({**facts, "failed": bool(failed), "answers": answers})
    for row in client.query(sql("lengths"), parameters=scope).result_rows if any_cut else ():
        arm, cut, *figures = row
        lengths = found.setdefault(arm, {"ends": []}).setdefault("lengths", {})
        lengths["cut" if cut else "kept"] = _lengths(figures)
    return found


def _lengths(figures: Sequence[Any]) -> dict[str, float | None]:
    names = ("answers", "bytes_mean", "bytes_p50", "output_tokens_mean")
    return {
        name: figure if figure is not None and math.isfinite(figure) else None
        for name, figure in zip(names, figures, strict=True)
    }
