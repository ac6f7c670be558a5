"""What is asked of one METRIC.STATISTIC: its margin, and of one's own metrics what they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import BaseModel, ConfigDict

from analysis.amounts import Goal, Margin, fraction
from analysis.metrics import FAMILIES, STATISTICS, Family, Kind, Metric, metrics, split


class Part(BaseModel):
    """A part of the policy: frozen, unknown keys refused, values kept out of errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Gated(Part):
    """One gated METRIC.STATISTIC."""

    margin: Margin
    goal: Goal = "not_worse"
    """Or `improve BY`: it passes only where it is better by that much at least."""
    critical: bool = True
    """Its fail rejects; a fail of a metric that is not critical holds."""
    direction: Literal["lower", "higher"] | None = None
    """Which side is better; stated for one's own metrics alone, and where neither side is."""
    family: Family | None = None
    """Of one's own metrics."""

    @property
    def margin_fraction(self) -> float:
        """5% -> 0.05; 0.5pp -> 0.005."""
        return fraction(self.margin)

    @property
    def improve_fraction(self) -> float | None:
        """`improve 10%` -> 0.1; None for not_worse."""
        return None if self.goal == "not_worse" else fraction(self.goal.split()[1])


def resolved(name: str, gated: Gated) -> tuple[Metric, str]:
    """METRIC.STATISTIC as its metric and statistic; one's own is made of what `gated` states.

    Raises:
        ValueError: there is none, or `gated` states too little of it, or too much.
    """
    word, _, statistic = name.rpartition(".")
    if word not in metrics():
        return _own(name, word, statistic, gated)
    metric, statistic = split(name)
    if gated.family or (gated.direction and metric.better != "either"):
        raise ValueError(f"{name}: direction and family belong to one's own metrics")
    return replace(metric, better=gated.direction or metric.better), statistic


def _own(name: str, word: str, statistic: str, gated: Gated) -> tuple[Metric, str]:
    if gated.direction is None or gated.family is None:
        more = f"one's own states direction (lower, higher) and family ({', '.join(FAMILIES)})"
        raise ValueError(f"{name}: there is no such metric; docs/metrics.md lists them; {more}")
    kinds: tuple[Kind, ...] = ("time", "share")
    kind = next((kind for kind in kinds if statistic in STATISTICS[kind]), None)
    if not word or kind is None:
        raise ValueError(
            f"{name}: one's own metric has the statistics p50, p90, p95, p99, mean, rate"
        )
    own = "one's own; a ratio of values, or 0 and 1 for a rate"
    unit = "share" if kind == "share" else ""
    return Metric(word, unit, kind, gated.direction, gated.family, own, "null", "-"), statistic


def check(name: str, gated: Gated) -> None:
    """It can be judged: it has a better side, and its amounts are of its kind.

    Raises:
        ValueError: it cannot.
    """
    metric, _ = resolved(name, gated)
    if metric.better == "either":
        raise ValueError(f"{name}: it has no better side; state direction: lower or higher")
    wanted = "pp" if metric.kind == "share" else "%"
    for amount in (gated.margin, *gated.goal.split()[1:]):
        if not amount.endswith(wanted):
            raise ValueError(f"{name}: its margin is in {wanted}, not {amount}")
