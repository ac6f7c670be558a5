"""What a person decides beforehand: margins, error levels, blocks. policy.yaml, checked.

Percentages are relative, pp absolute.
"""

from __future__ import annotations

import hashlib
import json
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from analysis.amounts import Duration, Slack, fraction
from analysis.gated import Gated, Part, check, resolved
from analysis.metrics import Metric, split

SEGMENTS = ("model", "route", "streamed", "prompt_tokens", "output_tokens", "cached")


class Alpha(Part):
    """Error levels: a wrong reject over all gated metrics together, a wrong promote."""

    reject: float = Field(default=0.05, gt=0, lt=0.5)
    promote: float = Field(default=0.05, gt=0, lt=0.5)


class Blocks(Part):
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


class WarmUp(Part):
    """What is left out at a comparison's start: its first pairs."""

    pairs: int = Field(default=200, ge=0)


class Tap(Part):
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


class Policy(Part):
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
            check(name, gated)
        return value

    def metric_of(self, name: str) -> tuple[Metric, str]:
        """METRIC.STATISTIC as its metric and statistic, one's own metrics with them.

        Raises:
            ValueError: as `analysis.metrics.split`.
        """
        gated = self.metrics.get(name)
        return split(name) if gated is None else resolved(name, gated)


def policy_hash(policy: Policy) -> str:
    """First 16 hex digits of SHA-256 over the canonical JSON of the resolved policy."""
    tree = policy.model_dump(mode="json", exclude_none=True)
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
