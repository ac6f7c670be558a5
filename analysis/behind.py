"""Whether the analysis has kept up: a verdict speaks of what it has seen, and of nothing since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.closing import SILENT_AFTER_NS
from analysis.queries import sql
from analysis.settings import Settings

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

SLACK_S = 45
"""On top of a window: how long a look and the rest after it may take."""


def behind(client: Client, settings: Settings, arm: str, now_ns: int) -> str | None:
    """Why the arm's last verdict must not be relied on, in one line; None: nothing was missed.

    Args:
        client: of the store.
        settings: the experiment.
        arm: the candidate.
        now_ns: the wall clock (UTC, ns).
    """
    due_ns = now_ns - (settings.window_seconds + SLACK_S) * 10**9
    rows = client.query(
        sql("behind"),
        parameters={
            "experiment": settings.experiment,
            "config_hash": settings.config_hash,
            "comparison": settings.comparisons[arm],
            "arm": arm,
            "due_ns": due_ns,
            "dead_ns": now_ns - SILENT_AFTER_NS,
        },
    ).result_rows
    if not rows:
        return None
    age_s = (now_ns - rows[0][0]) // 10**9
    return f"the analysis is behind: what arrived {age_s} s ago is not judged yet"
