"""The closed sets of words that the proxy writes, and what each means."""

from __future__ import annotations

from typing import Literal, get_args

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
    "not_started",
    "kill_switch",
    "draining",
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
