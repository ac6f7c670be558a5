"""Where requests go: the primary, and the arms beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from shadow.config.body import ModelName, Params
from shadow.config.bounds import ArmLimits, Breaker, BreakerOrOff, Price
from shadow.config.choice import SamplingKey
from shadow.config.units import SomeTime
from shadow.config.words import HeaderName, HeaderValue, Part, Url


class Tls(Part):
    """How an https upstream is verified."""

    ca: Path | None = None
    """PEM file of the authorities to trust; without it, the system's."""
    certificate: Path | None = None
    """PEM file of the client's certificate (and its key, unless `key` is given)."""
    key: Path | None = None
    server_name: str | None = None
    """SNI and the name to verify; without it, the URL's host."""


class Upstream(Part):
    """A server that the proxy sends requests to."""

    url: Url
    build: str = ""
    """Any text that names the build; part of a comparison's identity."""
    tokenizer: Path | None = None
    """A tokenizer.json that counts output tokens where the engine gives no count of its own."""
    replicas: int | None = Field(default=None, ge=1)
    """How many engine replicas serve it; loads are compared by replica where it is stated."""
    tls: Tls = Tls()
    connect_timeout: SomeTime = 5.0
    idle_timeout: SomeTime = 4.0
    """An idle connection is closed after this; below the 5 s at which uvicorn closes."""


class HeaderChanges(Part):
    """Header fields of one arm's request: set replaces, remove takes away."""

    set: dict[HeaderName, HeaderValue] = {}
    remove: list[HeaderName] = []


class Primary(Upstream):
    """The upstream whose answers the clients get; it gets their fields as sent, unless told so.

    With `attach: tap` it is a replica that nobody waits for; its requests are built as an arm's.
    """

    forwarded: Literal["pass", "append"] = "pass"
    """append: X-Forwarded-For and Forwarded name the client, as a proxy's hop does."""
    host: Literal["client", "url"] = "client"
    """Whose Host it is told: the client's own, or the name in `url`."""
    request_id: Literal["pass", "make", "remove"] = "pass"
    """make: a request without an X-Request-Id gets one, the pair_id of its records."""
    traceparent: Literal["pass", "make", "remove"] = "pass"
    """make: a request without one begins a trace; remove: `tracestate` goes with it."""
    headers: HeaderChanges = HeaderChanges()
    """Tapped only."""
    allow_external: bool = False
    """Tapped only: whether it may live outside of `networks`."""
    deadline: SomeTime = 120.0
    """Tapped only: over the wait in the proxy plus the whole answer."""
    concurrency: int = Field(default=200, ge=1)
    """Tapped only: open requests of the replica; one more is dropped and counted."""

    def misplaced(self, attach: str) -> str:
        """The first key that means nothing so attached, with the reason; empty: there is none."""
        fields = type(self).model_fields
        said = {key for key, field in fields.items() if getattr(self, key) != field.default}
        if attach == "tap":
            wrong = sorted(said & {"forwarded", "host", "request_id", "traceparent"})
            return f"{wrong[0]}: its requests are built here; say it by headers" if wrong else ""
        wrong = sorted(said & {"headers", "deadline", "concurrency", "allow_external"})
        return f"{wrong[0]}: only with attach: tap; inline it has no bound" if wrong else ""


class Arm(Upstream):
    """One upstream's place in an experiment beside the primary."""

    role: Literal["candidate", "control"]
    sample: float = Field(ge=0, le=1)
    """The share of eligible requests that this arm gets; it has no default."""
    key: SamplingKey = "request"
    """What is drawn for: request, conversation, or header:NAME; equal keys are chosen alike."""
    allow_external: bool = False
    """Whether it may live outside of `networks`."""
    models: dict[ModelName, ModelName] = {}
    """The client's name of a model: this arm's. With it, requests for others are skipped."""
    params: Params = Params()
    include_usage: bool = False
    """Streamed chat/completions and completions are asked for usage."""
    amplify: int = Field(default=1, ge=1, le=100)
    """How many times it gets each request: replicas 0, 1, …"""
    headers: HeaderChanges = HeaderChanges()
    factors: dict[str, str] = {}
    """What this arm tries out, in words; part of a comparison's identity."""
    deadline: SomeTime = 120.0
    """Over the wait in the proxy plus the whole stream."""
    concurrency: int = Field(default=200, ge=1)
    """Open requests of this arm alone, of all workers; one more is dropped and counted."""
    start: Literal["with_primary", "after_primary"] = "with_primary"
    """When it gets its copy: at once, or when the primary's answer has ended."""
    breaker: BreakerOrOff = Breaker()
    limits: ArmLimits = ArmLimits()
    price: Price | None = None

    @model_validator(mode="after")
    def _one_wish_a_name(self) -> Self:
        if said := self.params.collision(include_usage=self.include_usage):
            raise ValueError(f"params: {said}")
        return self

    @model_validator(mode="after")
    def _priced(self) -> Self:
        if self.limits.cost_per_day is not None and self.price is None:
            raise ValueError("limits.cost_per_day: needs a price beside it")
        return self
