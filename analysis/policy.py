"""What a person decides beforehand: margins, error levels, blocks. policy.yaml, checked.

Percentages are relative, pp absolute. A key whose feature is to come is refused, never ignored.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    field_validator,
    model_validator,
)

from analysis.metrics import split

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)\s*", re.ASCII)
_MARGIN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(%|pp)\s*", re.ASCII)
DEADLINE_SLACK = "20%"


def _duration(value: object) -> float:
    if isinstance(value, float):  # a resolved policy is read again
        return value
    match = _DURATION.fullmatch(str(value))
    if match is None:
        raise ValueError(f"{value!r} is not a duration with its unit, such as 60s or 1h")
    return float(match[1]) * _SECONDS[match[2]]


def _margin(value: object) -> str:
    match = _MARGIN.fullmatch(str(value))
    if match is None or not 0 < float(match[1]) < 100:
        raise ValueError(f"{value!r} is not a margin: write 5% (relative) or 0.5pp (absolute)")
    return f"{float(match[1]):g}{match[2]}"


def _not_yet(what: str) -> BeforeValidator:
    def refuse(_value: object) -> object:
        raise ValueError(f"not yet: {what} is not in this version; leave the key out")

    return BeforeValidator(refuse)


def _goal(value: object) -> object:
    if str(value).startswith("improve"):
        raise ValueError("not yet: goal: improve is not in this version; write not_worse")
    return value


def _slack(value: object) -> object:
    if str(value) != DEADLINE_SLACK:
        raise ValueError(f"not yet: only {DEADLINE_SLACK} is in this version")
    return value


Duration = Annotated[float, BeforeValidator(_duration), PlainSerializer(lambda s: f"{s:g}s")]
Margin = Annotated[str, BeforeValidator(_margin)]


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
    goal: Annotated[Literal["not_worse"], BeforeValidator(_goal)] = "not_worse"
    critical: bool = True
    """Its fail rejects; a fail of a metric that is not critical holds."""
    direction: Annotated[Any, _not_yet("direction, for metrics of one's own,")] = None
    family: Annotated[Any, _not_yet("family, for metrics of one's own,")] = None

    @property
    def margin_fraction(self) -> float:
        """5% -> 0.05; 0.5pp -> 0.005."""
        return float(self.margin.rstrip("%p")) / 100


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
    deadline_slack: Annotated[str, BeforeValidator(_slack)] = DEADLINE_SLACK
    tap: Annotated[Any, _not_yet("tap")] = None
    segments: Annotated[Any, _not_yet("a verdict by segments")] = None
    metrics: dict[str, Gated] = Field(default_factory=_default_metrics)

    @field_validator("metrics")
    @classmethod
    def _known(cls, value: dict[str, Gated]) -> dict[str, Gated]:
        for name, gated in value.items():
            metric, _ = split(name)
            if metric.better == "either":
                raise ValueError(f"{name}: not yet: it has no better side, so it cannot be gated")
            wanted = "pp" if metric.kind == "share" else "%"
            if not gated.margin.endswith(wanted):
                raise ValueError(f"{name}: its margin is in {wanted}, not {gated.margin}")
        return value


def policy_hash(policy: Policy) -> str:
    """First 16 hex digits of SHA-256 over the canonical JSON of the resolved policy."""
    tree = policy.model_dump(mode="json", exclude_none=True)
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
