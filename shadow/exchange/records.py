"""What a record holds: one exchange of one arm, or what a worker has counted."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from shadow.exchange.body import Body

SCHEMA_VERSION = 1

Mark = tuple[int, int]
"""(elapsed_ns, end): by elapsed_ns after the request was sent, body[:end] had arrived."""

Headers = list[tuple[str, str]]
"""Fields in the order and spelling of the wire, values read as latin-1."""


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="null")


class RequestFacts(_Wire):
    """What is known of a request without its text; the same on every arm's record."""

    model: str | None = None
    streamed: bool | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    bytes: int = 0
    turns: int | None = None
    tools: int | None = None
    conversation: str | None = None
    """Salted hash of the tenant and the messages up to the first user message."""


class Exchange(_Wire):
    """One request and what one arm answered.

    `marks` count from the moment the request's last byte was written (or the answer's first byte
    arrived, if that was sooner); `connect_ns`, `sent_ns`, `first_byte_ns` and `end_ns` count from
    `started_at`. So an answer ended `end_ns - sent_ns` after its request had been sent.
    """

    record: Literal["exchange"] = "exchange"
    schema_version: int = SCHEMA_VERSION
    experiment: str
    config_hash: str
    pair_id: str
    arm: str
    role: str
    replica: int = 0
    probe: str = "none"
    attach: str = "inline"
    worker: str
    boot_id: str
    sequence: int = Field(ge=1)
    """Counts one worker and boot's exchanges from 1; given before the queue: a drop is a gap."""

    arrived_at: int
    """UTC, ns: when the client's request arrived; the same in every arm's record."""
    started_at: int
    """UTC, ns: when this arm's own request began."""
    connect_ns: int | None = None
    """The connection was ready; null when a pooled one was used."""
    sent_ns: int | None = None
    first_byte_ns: int | None = None
    """The first byte of the answer's head."""
    end_ns: int | None = None
    client_wait_ns: int = 0
    """How long the client's full buffer held the answer back."""
    marks: list[Mark] = []

    method: str
    path: str
    status: int | None = None
    headers: Headers = []
    """The answer's, redacted."""
    request_headers: Headers = []
    """The client's, redacted; on the primary's record only."""
    request: Body | None = None
    """The client's body; on the primary's record only."""
    request_facts: RequestFacts = RequestFacts()
    request_changes: list[str] = []
    """What was altered for this arm: `header:authorization`, `body:model` …; `*` in place of a name
    that a client made up."""
    body: Body = b""
    """The answer after transfer decoding, content coding untouched, up to `limits.answer_bytes`,
    then the last `limits.answer_tail`."""
    captured_bytes: int = 0
    """len(body), as long as a body is there."""
    truncated_bytes: int = 0
    """How much between the kept head and the kept tail is missing; marks go on beyond it."""
    tail_bytes: int = 0
    """How many of `body`'s last bytes are the tail that follows the gap."""
    in_flight: int = 0
    """Requests of this arm that were open when this one began."""
    weight: float = Field(default=1.0, ge=1e-9, le=1e12)
    """1 / sampling probability, as it was when the request was decided on."""
    mirroring: str = "on"
    """What the mirror did when the request arrived: on; off (a shadow-off window: the primary's
    record alone); ending (such a window had just begun, and copies of earlier requests were still
    open); after (within 5 s after mirroring had stood still)."""
    subject: str | None = None
    redactions: dict[str, int] = {}
    """How often something was replaced in it, by rule; `withheld`: what could not be looked through
    and is missing for that."""
    measures: dict[str, Any] | None = None
    """With `capture: measures`: what was read of the answer, by the columns of `exchanges`."""
    transport: str
    error: str | None = None
    """One line of reason where transport is not `complete`."""


class Count(_Wire):
    """One cumulative counter of one arm; reason is empty for counters that have none."""

    arm: str
    counter: str
    reason: str = ""
    value: int


class Accounting(_Wire):
    """What one worker had counted by `at`; published every second and once more at the end.

    `low_water` is the arrival (UTC, ns) of the oldest request that is still open, queued or
    spooled; with none open it is `at`; null once the worker has ended (`final`).
    """

    record: Literal["accounting"] = "accounting"
    schema_version: int = SCHEMA_VERSION
    experiment: str
    config_hash: str
    worker: str
    boot_id: str
    sequence: int = Field(ge=1)
    """Counts this worker's accounting records from 1."""
    at: int
    high_sequence: int = 0
    """The highest exchange sequence given so far."""
    dropped_sequences: int = 0
    """How many of those were dropped after they had been given."""
    low_water: int | None = None
    final: bool = False
    counts: list[Count] = []


Record = Annotated[Exchange | Accounting, Field(discriminator="record")]
