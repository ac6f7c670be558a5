"""How much an arm may be given, and when it is left alone."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from shadow.config.units import Duration
from shadow.config.words import Part


def _off(value: object) -> object:
    """YAML 1.1 reads a bare off as false."""
    return "off" if value is False else value


def _which(value: object) -> str:
    return "<off>" if value == "off" else "<on>"


class ArmLimits(Part):
    """What all workers together may give an arm; each worker may give its part."""

    requests_per_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Beyond it dropped, `rate`."""
    tokens_per_day: int | None = Field(default=None, ge=1)
    """Prompt and answer together, of a day in UTC; beyond it dropped, `budget`."""
    cost_per_day: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """In the currency of `price`; beyond it dropped, `budget`."""


class Price(Part):
    """What an arm's tokens cost."""

    prompt_per_million: float = Field(ge=0, allow_inf_nan=False)
    completion_per_million: float = Field(ge=0, allow_inf_nan=False)


class Breaker(Part):
    """When an arm that fails is left alone."""

    failures: int = Field(default=20, ge=1)
    """So many in a row open it: no connection, no answer by the deadline, a cut, a 5xx."""
    open: Annotated[Duration, Field(gt=0)] = 10.0
    """So long nothing is sent; then probes are."""
    probes: int = Field(default=1, ge=1)
    """So many requests are tried then; all well closes it, one failure opens it again."""


BreakerOrOff = Annotated[
    Annotated[Breaker, Tag("<on>")] | Annotated[Literal["off"], Tag("<off>")],
    Discriminator(_which),
    BeforeValidator(_off),
]
