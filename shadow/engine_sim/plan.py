"""One request's answer, decided before its first byte: what to write, when, and how it ends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from shadow.engine_sim import answer as answers
from shadow.engine_sim import frames
from shadow.engine_sim.asked import Asked
from shadow.engine_sim.fault import Fault
from shadow.engine_sim.frames import Envelope, Group
from shadow.engine_sim.settings import Settings
from shadow.engine_sim.timing import offsets_s

End = Literal["whole", "reset", "close"]
"""whole: the message ends as HTTP has it; reset: RST; close: FIN before the message's end."""

BREAK_S = 0.005
"""How long after the last bytes a connection breaks, where no later token sets the moment."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Groups of writes, each with the second from the request's arrival at which it is due."""

    offsets_s: list[float]
    groups: list[Group]
    streamed: bool
    status: int = 200
    end: End = "whole"
    length: int | None = None
    """The Content-Length that is promised; null: chunked if streamed, else what is there."""


def plan(
    asked: Asked, settings: Settings, envelope: Envelope, draw: Random, fault: Fault | None
) -> Plan:
    """The answer to `asked`: its text from the prompt, times and the fault's place from `draw`."""
    if fault == "http_500":
        return _refusal(500, settings, envelope, draw)
    if fault == "http_429":
        return _refusal(429, settings, envelope, draw)
    answer = _answer(asked, settings, fault)
    count = max(1, len(answer.tokens) + len(answer.reasoning))
    whole = _whole(asked, answer, envelope, offsets_s(settings, draw, count))
    return _broken(whole, settings, envelope, draw, fault)


def _answer(asked: Asked, settings: Settings, fault: Fault | None) -> answers.Answer:
    answer = answers.compose(asked.digest, settings, asked.max_tokens, asked.prompt_tokens)
    if asked.kind == "text":
        answer = replace(answer, reasoning=())
    return replace(answer, tokens=(), reasoning=(), finish="stop") if fault == "empty" else answer


def _whole(asked: Asked, answer: answers.Answer, envelope: Envelope, times_s: list[float]) -> Plan:
    if asked.streamed:
        return Plan(times_s, frames.stream(answer, envelope, usage=asked.usage), streamed=True)
    return Plan(times_s[-1:], [[frames.document(answer, envelope)]], streamed=False)


def _refusal(status: int, settings: Settings, envelope: Envelope, draw: Random) -> Plan:
    """An error instead of an answer, after the time that a first token would take."""
    body = frames.error(envelope.dialect, status)
    return Plan(offsets_s(settings, draw, 1), [[body]], streamed=False, status=status)


def _broken(  # noqa: PLR0911 one return a fault
    whole: Plan, settings: Settings, envelope: Envelope, draw: Random, fault: Fault | None
) -> Plan:
    """The same answer with its fault; a break comes after 1 … n-1 of n tokens."""
    cut = 1 + draw.randrange(max(1, len(whole.groups) - 1))
    match fault:
        case "hang":
            return _later(whole, 0, settings.hang_s)
        case "stall":
            return _later(whole, min(cut, len(whole.groups) - 1), settings.stall_s)
        case "reset":
            return replace(_cut(whole, cut), end="reset")
        case "truncate":
            return replace(_cut(whole, cut), end="whole" if whole.streamed else "close")
        case "in_band_error" if not whole.streamed:
            return replace(whole, groups=[[frames.error(envelope.dialect, 500)]])
        case "in_band_error":
            return _failing(_cut(whole, cut), envelope)
    return whole


def _later(whole: Plan, first: int, pause_s: float) -> Plan:
    """Everything from group `first` on comes `pause_s` later."""
    times = whole.offsets_s
    return replace(whole, offsets_s=[*times[:first], *(t + pause_s for t in times[first:])])


def _cut(whole: Plan, cut: int) -> Plan:
    """The first `cut` groups, then a moment with nothing to write, at which it breaks.

    A lone group loses its end: a document its second half, a stream all but its first event.
    """
    times, groups = whole.offsets_s, whole.groups
    if len(groups) > cut:
        return replace(whole, offsets_s=times[: cut + 1], groups=[*groups[:cut], []])
    first = groups[0][0]
    start = first if whole.streamed else first[: len(first) // 2]
    length = None if whole.streamed else len(first)
    moments = [times[0], times[0] + BREAK_S]
    return replace(whole, offsets_s=moments, groups=[[start], []], length=length)


def _failing(cut: Plan, envelope: Envelope) -> Plan:
    """A failure after the head: an error event, or a closed connection, as the dialect has it."""
    if envelope.dialect.drops_on_error:
        return replace(cut, end="close")
    return replace(cut, groups=[*cut.groups[:-1], frames.error_group(envelope.dialect, 500)])
