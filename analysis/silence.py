"""An arm that answers nothing any more, or nothing but failures: said before anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.case import Counted
from analysis.queries import sql
from analysis.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clickhouse_connect.driver.client import Client

LEAST = 10
"""Fewer failures in a row are not told."""
MOST_KINDS = 3
LOOK_BACK_S = 3600
"""The newest arrivals are looked for in the last hour of closed windows: what an older answer says
is in the figures."""


def silent(client: Client, settings: Settings, candidate: str, counted: Counted) -> tuple[str, ...]:
    """A line for the candidate, and one for the control, whose newest requests all failed.

    Closed windows alone: what arrived in them has ended, so a slow good answer is not overlooked.
    """
    if counted.from_s is None or counted.until_s is None:
        return ()
    from_s = max(counted.from_s, counted.until_s - LOOK_BACK_S)
    arms = {candidate: candidate}
    if settings.control is not None:
        named = settings.control != "control"
        arms[settings.control] = f"the control {settings.control}" if named else "the control"
    found = []
    for arm, called in arms.items():
        scope = {
            "experiment": settings.experiment,
            "config_hash": settings.config_hash,
            "arm": arm,
            "from_ns": from_s * 10**9,
            "until_ns": counted.until_s * 10**9,
        }
        found.append(_line(called, client.query(sql("silence"), parameters=scope).result_rows))
    return tuple(line for line in found if line)


def _line(called: str, rows: Sequence[Sequence[object]]) -> str:
    """`fp8 answered none of its newest 92 requests (connect_failed)`; '' for too few."""
    kinds = [(str(how), int(str(head)), int(str(requests))) for how, head, requests in rows]
    requests = sum(n for _, _, n in kinds)
    if requests < LEAST:
        return ""
    mute = not any(head for _, head, _ in kinds)
    seen = "answered none" if mute else "failed all"
    return f"{called} {seen} of its newest {requests:,} requests ({_told(kinds)})"


def _told(kinds: Sequence[tuple[str, int, int]]) -> str:
    """Each kind with its number; the only one without."""
    names = [f"{how} {head}" if head else how for how, head, _ in kinds]
    if len(names) == 1:
        return names[0]
    told = [f"{name}: {n:,}" for name, (_, _, n) in zip(names, kinds, strict=True)]
    return ", ".join([*told[:MOST_KINDS], *(["…"] if len(told) > MOST_KINDS else [])])
