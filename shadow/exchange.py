"""Exchange v1 and Accounting v1: what the proxy says on the stream, and nothing else.

This module is the contract between the proxy, the collector and the analysis. It imports the
standard library and pydantic only. Rules:

1. Fields are added, never renamed; readers ignore what they do not know.
2. Vocabularies are open on the wire: an unknown word is stored, never refused.
3. Every duration is an integer of nanoseconds on the monotonic clock; `arrived_at` and
   `started_at` are wall clock (UTC), taken once an exchange.
4. Bodies travel deflated (RFC 1950), then base64, inside the JSON document.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
)

SCHEMA_VERSION = 1

Transport = Literal[
    "complete",
    "client_disconnected",
    "reset",
    "connect_failed",
    "timed_out",
    "deadline_short",
    "truncated",
    "malformed",
    "breaker_open",
    "cut_by_drain",
]
"""How the bytes ended, as the proxy saw it."""

Outcome = Literal[
    "complete",
    "http_error",
    "in_band_error",
    "no_terminal_event",
    "no_tokens",
    "truncated_upstream",
    "truncated_capture",
    "client_disconnected",
    "not_a_completion",
]
"""What the answer was, as the decoder read it."""

Role = Literal["primary", "control", "candidate"]
Probe = Literal["none", "greedy"]
Attach = Literal["inline", "tap"]

Counter = Literal[
    "eligible",
    "sampled",
    "skipped",
    "captured",
    "dropped",
    "pending",
    "lost",
    "reached",
    "connect_failed",
    "breaker_open",
    "unsent",
]
"""eligible = sampled + skipped(reason); sampled = captured + dropped(reason) + pending + lost.

Of what an arm began, each is one of: reached (its bytes were written to a connection),
connect_failed (there was none by the deadline), breaker_open, unsent (the client left before there
was one). Where nothing was dropped after it had begun, captured is their sum.
"""

SkipReason = Literal[
    "not_sampled",
    "marked",
    "opted_out",
    "body_too_large",
    "encoded",
    "stateful",
    "model_not_served",
    "too_large_to_route",
    "not_json",
    "paused",
    "lag",
    "shadow_off",
    "stopped",
    "kill_switch",
    "upgrade",
    "denied",
]
"""Why an eligible request was never meant for an arm. Closed on the writing side."""

DropReason = Literal[
    "concurrency",
    "queue_full",
    "log_full",
    "deadline",
    "request_incomplete",
    "shutdown",
    "record_too_large",
    "stream_error",
    "not_encodable",
    "memory",
    "primary_unreachable",
    "rate",
    "budget",
    "switched_off",
]
"""Why a sampled request has no exchange of an arm. Closed on the writing side."""

TRANSPORTS: tuple[str, ...] = get_args(Transport)
OUTCOMES: tuple[str, ...] = get_args(Outcome)
SKIP_REASONS: tuple[str, ...] = get_args(SkipReason)
DROP_REASONS: tuple[str, ...] = get_args(DropReason)

MAX_BODY_BYTES = 256 * 1024 * 1024
"""The most that one deflated body may unfold to when it is read from the stream."""


class MalformedRecord(ValueError):
    """A record that will fail the same way however often it is read."""


STORED_BYTES = 1024
"""Up to here a body is stored, not compressed: 0.3 µs instead of 4 to 15 and two hand-overs of the
interpreter's lock, for a few hundred bytes more."""
_SMALL_BYTES, _MEDIUM_BYTES = 32 * 1024, 64 * 1024
_TABLES = (14, 5), (zlib.MAX_WBITS, 5), (zlib.MAX_WBITS, 8)
"""zlib's wbits and memLevel for small, medium and large bodies: full tables cost 15 µs to allocate,
and the full window 10 µs of page faults, several times the work on a small body."""


def deflated(body: bytes | bytearray) -> str:
    """Base64 of a RFC 1950 stream: one stored block, or level 1."""
    length = len(body)
    if length <= STORED_BYTES:
        block = struct.pack("<BHH", 1, length, length ^ 0xFFFF)
        stream = b"\x78\x01" + block + body + zlib.adler32(body).to_bytes(4, "big")
    else:
        window, memory = _TABLES[(length > _SMALL_BYTES) + (length > _MEDIUM_BYTES)]
        deflater = zlib.compressobj(1, zlib.DEFLATED, window, memory)
        stream = deflater.compress(body) + deflater.flush()
    return binascii.b2a_base64(stream, newline=False).decode("ascii")


def _inflate(wire: object) -> object:
    """Undo `deflated`; bytes given by a caller pass as they are."""
    if not isinstance(wire, str):
        return wire
    try:
        inflater = zlib.decompressobj()
        body = inflater.decompress(base64.b64decode(wire, validate=True), MAX_BODY_BYTES)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"not a deflated, base64-coded body: {error}") from error
    if not inflater.eof:
        raise ValueError("the deflated body is cut short or larger than 256 MiB")
    return body


Body = Annotated[
    bytes,
    BeforeValidator(_inflate),
    PlainSerializer(deflated, return_type=str, when_used="json"),
]

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
    """What was altered for this arm: `header:authorization`, `body:model` …"""
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
_RECORD: TypeAdapter[Exchange | Accounting] = TypeAdapter(Record)


def encode(record: Exchange | Accounting) -> bytes:
    """The record's wire form: one JSON document, UTF-8, no line breaks."""
    return record.__pydantic_serializer__.to_json(record)


def decode(value: bytes) -> Exchange | Accounting:
    """Read a record from the stream.

    Raises:
        MalformedRecord: it is not JSON, not a record, or misses a required field.
    """
    try:
        return _RECORD.validate_json(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "record"
        raise MalformedRecord(f"{where}: {first['msg']}") from None
