"""What a person decides beforehand: margins, error levels, blocks. policy.yaml, checked.

Percentages are relative, pp absolute.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from analysis.amounts import Duration, Goal, Margin, Slack, fraction
from analysis.metrics import FAMILIES, STATISTICS, Family, Kind, Metric, metrics, split

SEGMENTS = ("model", "route", "streamed", "prompt_tokens", "output_tokens", "cached")


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Alpha(_Model):
    """Error levels: a wrong reject over all gated metrics together, a wrong promote."""

    reject: float = Field(default=0.05, gt=0, lt=0.5)
    promote: float = Field(default=0.05, gt=0, lt=0.5)


class Blocks(_Model):
    """How windows become blocks: by time, merged to `min_pairs`, or by count of pairs."""

    by: Literal["time", "count"] = "time"
    every: Duration = 60.0
    min_pairs: int = Field(default=50, ge=1)
    pairs: int | None = Field(default=None, ge=1)
    """Pairs a block; by count only."""
    planned: int = Field(default=100, ge=10)
    """The number of blocks at which the boundary is tightest."""

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if self.by == "count":
            if self.pairs is None:
                raise ValueError("pairs: by count needs it: how many pairs a block")
            if self.model_fields_set & {"every", "min_pairs"}:
                raise ValueError("every and min_pairs belong to blocks by time")
        elif self.pairs is not None:
            raise ValueError("pairs belongs to blocks by count; by time it is min_pairs")
        elif self.every < 1 or self.every % self.window_seconds:
            raise ValueError("every must be whole seconds below a minute, else whole minutes")
        return self

    @property
    def window_seconds(self) -> int:
        """The grid of windows: 1 s for counts and short blocks, else 60 s."""
        return 1 if self.by == "count" or self.every < 60 else 60


class WarmUp(_Model):
    """What is left out at a comparison's start: its first pairs."""

    pairs: int = Field(default=200, ge=0)


class Gated(_Model):
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


class Tap(_Model):
    """What should come by."""

    expected: float = Field(default=1.0, gt=0, le=1)
    """Share of requests that should arrive."""


def _default_metrics() -> dict[str, Gated]:
    margins = {
        "ttft_any.p50": "5%",
        "ttft_any.p95": "10%",
        "tpot.mean": "5%",
        "e2e.p95": "10%",
        "failure.rate": "0.5pp",
        "mismatch.rate": "2pp",
    }
    return {name: Gated(margin=margin) for name, margin in margins.items()}


class Policy(_Model):
    """policy.yaml. Without a file the defaults judge."""

    alpha: Alpha = Alpha()
    blocks: Blocks = Blocks()
    min_span: Duration = 3600.0
    """No promotion before the judged arrivals span this long; 0s asks for none."""
    warm_up: WarmUp = WarmUp()
    coverage: float = Field(default=0.95, ge=0, le=1)
    outage: Duration = Field(default=30.0, gt=0)
    """Half of a candidate's outages end within it, or a block where that is longer."""
    deadline_slack: Slack = "20%"
    """A deadline proves a candidate slow only where it lies so far beyond the primary's time."""
    tap: Tap = Tap()
    segments: tuple[str, ...] = SEGMENTS
    metrics: dict[str, Gated] = Field(default_factory=_default_metrics)

    @property
    def slack_fraction(self) -> float:
        """20% -> 0.2."""
        return fraction(self.deadline_slack)

    @field_validator("segments")
    @classmethod
    def _segments(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [name for name in value if name not in SEGMENTS]
        if unknown:
            raise ValueError(f"{unknown[0]}: there is no such segment; write {', '.join(SEGMENTS)}")
        return value

    @field_validator("metrics")
    @classmethod
    def _known(cls, value: dict[str, Gated]) -> dict[str, Gated]:
        for name, gated in value.items():
            metric, _ = _resolved(name, gated)
            if metric.better == "either":
                raise ValueError(f"{name}: it has no better side; state direction: lower or higher")
            wanted = "pp" if metric.kind == "share" else "%"
            amounts = [gated.margin, *gated.goal.split()[1:]]
            for amount in amounts:
                if not amount.endswith(wanted):
                    raise ValueError(f"{name}: its margin is in {wanted}, not {amount}")
        return value

    def metric_of(self, name: str) -> tuple[Metric, str]:
        """METRIC.STATISTIC as its metric and statistic, one's own metrics with them.

        Raises:
            ValueError: as `analysis.metrics.split`.
        """
        gated = self.metrics.get(name)
        return split(name) if gated is None else _resolved(name, gated)


def _resolved(name: str, gated: Gated) -> tuple[Metric, str]:
    word, _, statistic = name.rpartition(".")
    if word in metrics():
        metric, statistic = split(name)
        if gated.family or (gated.direction and metric.better != "either"):
            raise ValueError(f"{name}: direction and family belong to one's own metrics")
        return replace(metric, better=gated.direction or metric.better), statistic
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


def policy_hash(policy: Policy) -> str:
    """First 16 hex digits of SHA-256 over the canonical JSON of the resolved policy."""
    tree = policy.model_dump(mode="json", exclude_none=True)
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
