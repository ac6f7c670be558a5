"""How an answer ended: the outcome, in contracts' words, with its reason.

In this order: what the engine said went wrong; the dialect's own terminal event; then who cut it
short: the client, ourselves (our drain, our deadline, our capture's bound), the upstream; and at a
clean end the lack of a terminal event.
"""

from __future__ import annotations

from dataclasses import dataclass

from collector.completion.answer import Answer
from collector.completion.counting import usage_of
from collector.completion.model import Fault
from collector.completion.reading import Reading

_OURS = ("cut_by_drain", "deadline_short")
BEYOND = "its end lies beyond what was kept"
"""Why an end is not seen where a capture has a gap."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What is known of an answer's end."""

    transport: str
    transport_error: str | None
    fault: Fault | None
    """An in-band error."""
    terminal: bool
    has_tokens: bool
    cut_by_capture: str
    """Why the end of the answer was not seen although it may have come: we did not keep it, or
    there was more than we read of one answer; "" where it was."""
    left_over: bool = False
    """An event without its blank line stood at the end."""


Ended = tuple[str, Fault | None]
"""An outcome and its reason."""


def outcome_of(ending: Ending) -> Ended:
    """The outcome, and why it is not `complete`."""
    if ending.fault is not None:
        return "in_band_error", ending.fault
    if ending.terminal:
        if ending.has_tokens:
            return "complete", None
        return "no_tokens", Fault(None, "the answer ended without a single token")
    return cut_short(ending) or _without_terminal(ending)


def cut_short(ending: Ending) -> Ended | None:
    """Who cut an answer short before its end, if its transport or our capture tells."""
    why = Fault(ending.transport, ending.transport_error or f"transport: {ending.transport}")
    if ending.transport == "client_disconnected":
        return "client_disconnected", why
    if ending.transport in _OURS:
        return "truncated_capture", why
    if ending.cut_by_capture:
        return "truncated_capture", Fault("capture", ending.cut_by_capture)
    if ending.transport != "complete":
        return "truncated_upstream", why
    return None


def _without_terminal(ending: Ending) -> Ended:
    if ending.left_over:
        return "truncated_upstream", Fault("sse", "the last event has no blank line after it")
    return "no_terminal_event", Fault(None, "the stream ended without its terminal event")


def ending_of(
    answer: Answer, reading: Reading, *, unseen: str = "", left_over: bool = False
) -> Ending:
    """What is known of an answer's end, once it was read."""
    return Ending(
        transport=answer.transport,
        transport_error=answer.error,
        fault=reading.fault or _aborted(reading),
        terminal=reading.terminal,
        has_tokens=_has_tokens(reading),
        cut_by_capture=unseen,
        left_over=left_over,
    )


def _aborted(reading: Reading) -> Fault | None:
    """An engine that gives up says so in the finish reason (vLLM: error, SGLang: abort)."""
    for parts in reading.choices.values():
        if parts.finish_reason in ("error", "abort"):
            return Fault(parts.finish_reason, f"finish_reason: {parts.finish_reason}")
    return None


def _has_tokens(reading: Reading) -> bool:
    if reading.token_ends or reading.vectors:
        return True
    usage = usage_of(reading.usage)
    if usage is not None and usage.completion_tokens:
        return True
    return any(
        parts.text or parts.reasoning or parts.refusal or parts.calls or parts.token_ids
        for parts in reading.choices.values()
    )
