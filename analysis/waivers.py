"""Waivers: a person takes a metric out of the verdict, knowingly, for a time. They are appended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from analysis.moments import instant, shown
from analysis.queries import sql

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

STEP_NS = 1_000_000
COLUMNS = ("at", "experiment", "candidate", "metric", "waived_by", "reason", "until")


@dataclass(frozen=True, slots=True)
class Waiver:
    """One METRIC.STATISTIC that a person waived: by whom, why, and until when (UTC, ns)."""

    metric: str
    by: str
    reason: str
    until_ns: int

    @property
    def words(self) -> str:
        """`by ann until 2026-12-01T00:00:00+00:00: known, fixed next week`."""
        return f"by {self.by} until {shown(self.until_ns)}: {self.reason}"

    def part(self) -> dict[str, str]:
        """As the report has it."""
        return {"by": self.by, "reason": self.reason, "until": shown(self.until_ns)}


def active(client: Client, experiment: str, candidate: str, now_ns: int) -> dict[str, Waiver]:
    """The waivers that hold now, by METRIC.STATISTIC; the newest of each metric counts."""
    rows = client.query(
        sql("waivers"), parameters={"experiment": experiment, "arm": candidate}
    ).result_rows
    newest = {row[0]: Waiver(*row) for row in rows}
    return {name: waiver for name, waiver in newest.items() if waiver.until_ns > now_ns}


def waive(client: Client, experiment: str, candidate: str, waiver: Waiver, now_ns: int) -> None:
    """Append a waiver, the newest also by a clock that was set back; one whose end has passed takes
    an earlier one back.
    """
    scope = {"experiment": experiment, "arm": candidate}
    rows = client.query(sql("waived"), parameters=scope).result_rows
    at_ns = max([now_ns, *(last_ns + STEP_NS for (last_ns,) in rows)])
    row = [
        instant(at_ns),
        experiment,
        candidate,
        waiver.metric,
        waiver.by,
        waiver.reason,
        instant(waiver.until_ns),
    ]
    client.insert("waivers", [row], column_names=COLUMNS)


def expired(part: Mapping[str, Any], now_ns: int) -> list[str]:
    """Metrics of a written verdict whose waiver has ended since."""
    return [
        name
        for name, waiver in part.get("waivers", {}).items()
        if datetime.fromisoformat(waiver["until"]).timestamp() * 1e9 <= now_ns
    ]
