"""From what a reader filled in to the frozen completion."""

from __future__ import annotations

from collector.completion.answer import Answer, Marks
from collector.completion.counting import tokens_of, usage_of
from collector.completion.cumulative import undo_cumulative
from collector.completion.model import Choice, Completion, Fault, Timeline
from collector.completion.reading import Reading
from collector.completion.server_timings import said_in_headers


def bare(
    answer: Answer,
    dialect: str,
    outcome: str,
    fault: Fault | None,
    *,
    streamed: bool,
    unreadable: int,
) -> Completion:
    """A completion of which there is nothing to say but how it ended."""
    return Completion(
        dialect=dialect,
        streamed=streamed,
        status=answer.status,
        transport=answer.transport,
        outcome=outcome,
        fault=fault,
        unreadable_events=unreadable,
    )


def timeline_of(reading: Reading, marks: Marks, *, whole: bool) -> Timeline:
    """When the events were complete; no times without marks."""
    if not marks:
        return Timeline(whole=whole, first_tokens=reading.first_tokens or 1)
    data = _reads(reading.data_ends, marks)
    answer = [reading.answer_end] if reading.answer_end is not None else []
    return Timeline(
        data_ns=tuple(marks[at][0] for at in data),
        token_ns=tuple(marks[at][0] for at in _reads(reading.token_ends, marks)),
        answer_ns=next((marks[at][0] for at in _reads(answer, marks)), None),
        first_tokens=reading.first_tokens or 1,
        reads=len(set(data)),
        whole=whole,
    )


def _reads(ends: list[int], marks: Marks) -> list[int]:
    """For each offset, in order, the index of the mark by which it had arrived."""
    found: list[int] = []
    at, last = 0, len(marks) - 1
    for end in ends:
        while at < last and marks[at][1] < end:
            at += 1
        found.append(at)
    return found


def frozen(
    dialect: str,
    answer: Answer,
    reading: Reading,
    outcome: str,
    fault: Fault | None,
    timeline: Timeline | None,
) -> Completion:
    """What was read, frozen; a timeline where the answer was streamed."""
    choices, cumulative = _choices(reading)
    usage = usage_of(reading.usage)
    whole = not answer.gap_bytes and not reading.cut
    return Completion(
        dialect=dialect,
        streamed=timeline is not None,
        status=answer.status,
        transport=answer.transport,
        outcome=outcome,
        fault=fault,
        model=reading.model,
        fingerprint=reading.fingerprint,
        choices=choices,
        usage=usage,
        tokens=tokens_of(usage, choices, len(reading.token_ends), answer.count_tokens, whole=whole),
        timeline=timeline or Timeline(whole=whole),
        unreadable_events=reading.unreadable,
        damaged_events=reading.damaged,
        cumulative=cumulative,
        text_whole=whole,
        server={**reading.server, **said_in_headers(answer)},
    )


def _choices(reading: Reading) -> tuple[tuple[Choice, ...], bool]:
    choices: list[Choice] = []
    any_cumulative = False
    for index in sorted(reading.choices):
        parts = reading.choices[index]
        text, cumulative = undo_cumulative(parts.text)
        any_cumulative = any_cumulative or cumulative
        choices.append(parts.freeze(index, text))
    return tuple(choices), any_cumulative
