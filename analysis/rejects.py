"""The reject that stays: the first of a comparison that is not for waived metrics alone."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from analysis.queries import sql
from analysis.settings import Settings
from analysis.written import Rejected, Written

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client


def still_rejected(
    client: Client,
    settings: Settings,
    candidate: str,
    last: Written | None,
    waived: Collection[str],
) -> Rejected | None:
    """The earlier reject that stands; none where all that any was for is waived now."""
    if last is None or last.rejected is None or not waived:
        return None if last is None else last.rejected
    return standing(
        client.query(sql("rejects"), parameters=settings.scope(candidate)).result_rows, waived
    )


def standing(rows: Iterable[Sequence[Any]], waived: Collection[str]) -> Rejected | None:
    """The first of the rejects that is for something else than waived metrics; pure.

    A later reject without a failing metric repeats an earlier one. What failed later, while an
    earlier reject stood, counts as well: else a waiver of that one would lift both.

    Args:
        rows: failing metrics, reason, part of the report, since when (UTC, ns); oldest first.
        waived: METRIC.STATISTIC that are waived now.
    """
    for number, (failed, why, part, since_ns) in enumerate(rows):
        left = [name for name in failed if name not in waived]
        if number == 0 and (left or not failed):
            return Rejected(why, since_ns)
        if left:
            return Rejected(_sentences(json.loads(part), left), since_ns)
    return None


def _sentences(part: dict[str, Any], names: Iterable[str]) -> str:
    return " ".join(part["metrics"][name]["sentence"] for name in names)
