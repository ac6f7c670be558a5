"""What mirroring costs production: the primary's time to the first token with it, and without.

Shadow-off windows lie at random places, one a period, so the two sides of a period differ by the
mirroring alone, on average. A block is a period, or several where one holds too few requests.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.queries import sql
from analysis.scale import change, ends
from analysis.statistics.blocks import MIN_BLOCKS, half_width, spread

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

    from analysis.settings import Settings

METRIC = "ttft_any.mean"
LEAST = 5
"""Requests on either side of a block."""
PLANNED = 100
"""Blocks at which the interval is tightest: eleven hours of the default windows."""
ALPHA = 0.025
"""On each side: an interval of 95 %, at whatever time it is looked at."""
LOOK_BACK_S = 7 * 86400
RESOLUTION = 1e-6
"""As of a mean log-ratio in compare/times.py."""


@dataclass(frozen=True, slots=True)
class Period:
    """How many answers with mirroring on and off, and the sums of ln(time in ms)."""

    on_n: float
    off_n: float
    on_logs: float
    off_logs: float

    def __add__(self, other: Period) -> Period:
        return Period(
            self.on_n + other.on_n,
            self.off_n + other.off_n,
            self.on_logs + other.on_logs,
            self.off_logs + other.off_logs,
        )

    @property
    def full(self) -> bool:
        """Both sides can be told."""
        return min(self.on_n, self.off_n) >= LEAST

    @property
    def difference(self) -> float:
        """The log of with ÷ without."""
        return self.on_logs / self.on_n - self.off_logs / self.off_n


def merged(periods: Iterable[Period]) -> list[Period]:
    """Neighbours joined until both sides are full; what is left over at the end is no block."""
    blocks, open_ = [], Period(0, 0, 0, 0)
    for period in periods:
        open_ += period
        if open_.full:
            blocks.append(open_)
            open_ = Period(0, 0, 0, 0)
    return blocks


def mirroring_cost(client: Client, settings: Settings, now_ns: int) -> dict[str, Any]:
    """The part `mirroring` of report.json's `cost`, over the seven days before `now_ns` (UTC)."""
    if settings.off_period_s is None:
        return {"reason": "not known: `isolation: off`, or a tap, leaves no time without mirroring"}
    parameters = {
        "experiment": settings.experiment,
        "config_hash": settings.config_hash,
        "period_ns": int(settings.off_period_s * 1e9),
        "from_ns": max(now_ns - LOOK_BACK_S * 10**9, 0),
    }
    rows = client.query(sql("cost"), parameters=parameters).result_rows
    return cost_of([Period(*row[1:]) for row in rows])


def cost_of(periods: Sequence[Period]) -> dict[str, Any]:
    """The part of the tree; pure. Fractions; an open end is null."""
    blocks = merged(periods)
    whole = sum(blocks, Period(0, 0, 0, 0))
    tree: dict[str, Any] = {
        "metric": METRIC,
        "on_ms": math.exp(whole.on_logs / whole.on_n) if blocks else None,
        "off_ms": math.exp(whole.off_logs / whole.off_n) if blocks else None,
        "delta": None,
        "interval": [None, None],
        "unit": "ratio",
        "blocks": len(blocks),
        "requests": {"on": int(whole.on_n), "off": int(whole.off_n)},
    }
    if blocks:
        differences = np.array([block.difference for block in blocks])
        mean = float(differences.mean())
        half = half_width(spread(differences, RESOLUTION**2), ALPHA, PLANNED)
        tree["delta"] = math.expm1(mean)
        if math.isfinite(half):
            tree["interval"] = [math.expm1(mean - half), math.expm1(mean + half)]
    return tree | {"reason": _reason(len(blocks), tree["interval"])}


def _reason(blocks: int, interval: list[float | None]) -> str:
    if interval[0] is not None:
        return ""
    return f"not known yet: {blocks} of the {MIN_BLOCKS} or more shadow-off windows that it takes"


def sentence(tree: dict[str, Any]) -> str:
    """The part as one sentence."""
    if tree["reason"]:
        return f"What mirroring costs the primary is {tree['reason']}."
    low, high = tree["interval"]
    sides = f"{tree['on_ms']:.4g} ms with it, {tree['off_ms']:.4g} ms in shadow-off windows"
    return (
        f"With mirroring the primary's time to the first token is {change(tree['delta'], 'ratio')}"
        f" (95 % interval {ends(low, high, 'ratio')}; {sides}; {tree['blocks']} blocks)."
    )
