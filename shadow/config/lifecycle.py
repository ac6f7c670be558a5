"""When mirroring begins, ends and stands still: `start_at`, `stop_at`, `isolation`."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, Self

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    PlainSerializer,
    Tag,
    model_validator,
)

from shadow.config.moments import Moment
from shadow.config.units import Duration, parse_duration, show_duration
from shadow.config.words import Part

AFTER_S = 5.0
"""What arrives so soon after mirroring stood still is not compared: excluded, `after_window`."""


class Span(NamedTuple):
    """A least and a most duration, in seconds."""

    least: float
    most: float

    def __str__(self) -> str:
        return f"{show_duration(self.least)}..{show_duration(self.most)}"


def parse_span(value: object) -> Span:
    """10s..30s -> (10.0, 30.0); a single duration is both ends.

    Raises:
        ValueError: not durations, or the first is the longer one.
    """
    if isinstance(value, Span):
        return value
    first, dots, last = str(value).partition("..")
    span = Span(parse_duration(first), parse_duration(last if dots else first))
    if not 0 < span.least <= span.most:
        raise ValueError(f"{value!r} is not a span such as 10s..30s")
    return span


DurationSpan = Annotated[Span, BeforeValidator(parse_span), PlainSerializer(str)]


class Isolation(Part):
    """Windows without mirroring, and when mirroring pauses itself."""

    off_share: float = Field(default=0.05, gt=0, le=0.25)
    """The share of time in which nothing is mirrored; by it the report tells mirroring's cost."""
    window: DurationSpan = Span(10.0, 30.0)
    """How long such a window is; drawn for each."""
    pause_lag: Annotated[Duration, Field(ge=0.001)] = 0.002
    """A worker pauses its mirroring where the loop's p99 lag is above it with, not without."""

    @model_validator(mode="after")
    def _windows_stand_apart(self) -> Self:
        if self.period_s < self.window.most + 2 * AFTER_S:
            raise ValueError(
                f"window: {self.window} at off_share {self.off_share:g} leaves no time between"
                " windows; lower one of them"
            )
        return self

    @property
    def period_s(self) -> float:
        """Each stretch of so many seconds has one window."""
        return (self.window.least + self.window.most) / 2 / self.off_share


class StopAt(Part):
    """When mirroring ends by itself; what is first ends it. Each candidate ends for itself; `time`
    ends all of them.
    """

    pairs: Annotated[int, Field(ge=1)] | None = None
    """Complete pairs of a candidate."""
    hours: Annotated[float, Field(gt=0)] | None = None
    """Since the comparison's first arrival."""
    time: Moment | None = None
    """From then on nothing is mirrored, whether or not an analysis runs."""
    cost: Annotated[float, Field(gt=0)] | None = None
    """Spent on an arm, by its `price`."""
    on_verdict: Literal["stop", "continue"] = "stop"
    """Whether a final verdict (promote, reject) ends it."""


def _off(value: object) -> object:
    """YAML 1.1 reads a bare off as false, and on as true, which are the defaults."""
    return "off" if value is False else {} if value in (True, "on") else value


def _which(value: object) -> str:
    return "<off>" if isinstance(value, str) else "<windows>"


IsolationOrOff = Annotated[
    Annotated[Isolation, Tag("<windows>")] | Annotated[Literal["off"], Tag("<off>")],
    Discriminator(_which),
    BeforeValidator(_off),
]
