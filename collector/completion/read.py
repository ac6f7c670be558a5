"""Read one answer: choose the dialect, undo the coding, go through it, freeze what was found."""

from __future__ import annotations

from dataclasses import replace

from collector.completion.answer import Answer
from collector.completion.dialects import Dialect, dialect_of
from collector.completion.document import read_document
from collector.completion.ending import BEYOND, cut_short, ending_of, outcome_of
from collector.completion.events import Events, events_of
from collector.completion.faults import fault_of_body
from collector.completion.freeze import bare, frozen, timeline_of
from collector.completion.model import Completion, Fault
from collector.completion.reading import Reading
from collector.completion.stream import read_items
from collector.json_text import TooMuch, is_text
from shadow.content_coding import CodingError, CodingUnread, undo
from shadow.sse import Event

_JSON, _SSE = "application/json", "text/event-stream"
_SNIFFED = ("", "text/plain", "application/octet-stream")
_NEVER_SENT = ("connect_failed", "breaker_open")
_SSE_STARTS = (b"data:", b"event:", b":", b"id:", b"retry:", b"\xef\xbb\xbf")


def read(answer: Answer) -> Completion:
    """What `answer` said and how it ended; an outcome always, never an exception."""
    dialect = dialect_of(answer.path)
    if dialect is None:
        return _bare(answer, "", "not_a_completion", Fault("path", "not a completion's path"))
    if answer.status is None:
        ended = _unsent(answer) or cut_short(ending_of(answer, Reading())) or _nothing(answer)
        return _bare(answer, dialect.name, *ended)
    try:
        plain = _plain(answer)
    except (CodingError, CodingUnread) as error:
        fault = Fault("content_coding", str(error))
        outcome = _undecoded(answer.status, upstreams=isinstance(error, CodingError))
        return _bare(answer, dialect.name, outcome, fault, unreadable=1)
    return _read_plain(dialect, plain, answer.status)


def _undecoded(status: int, *, upstreams: bool) -> str:
    """An error status stands, whatever its body; else whose doing it is that nothing was read."""
    if status >= 400:
        return "http_error"
    return "truncated_upstream" if upstreams else "truncated_capture"


def _unsent(answer: Answer) -> tuple[str, Fault] | None:
    """Nothing was cut short where nobody was asked: there are no tokens, and the transport why."""
    if answer.transport not in _NEVER_SENT:
        return None
    return "no_tokens", Fault(answer.transport, answer.error or "the request was never sent")


def _nothing(answer: Answer) -> tuple[str, Fault]:
    return "truncated_upstream", Fault(answer.transport, answer.error or "there was no answer")


def _plain(answer: Answer) -> Answer:
    coding = answer.header("content-encoding")
    if not coding or not answer.body:
        return answer
    if not answer.gap_bytes:
        plain = undo(coding, answer.body, answer.marks)
        return replace(answer, body=plain.body, marks=plain.marks)
    # What stands after a gap in coded bytes cannot be read: the head is, and the end is unknown.
    head = answer.body[: len(answer.body) - answer.tail_bytes]
    plain = undo(coding, head, [mark for mark in answer.marks if mark[1] <= len(head)])
    return replace(answer, body=plain.body, marks=plain.marks, tail_bytes=0)


def _read_plain(dialect: Dialect, answer: Answer, status: int) -> Completion:
    if status >= 400:
        unreadable = int(not is_text(answer.body))
        fault = _http_fault(answer, status)
        return _bare(answer, dialect.name, "http_error", fault, unreadable=unreadable)
    kind = _kind(answer)
    if kind == _SSE:
        return _read_stream(dialect, answer)
    if kind == _JSON or not answer.body:
        return _read_document(dialect, answer)
    return _bare(
        answer,
        dialect.name,
        "not_a_completion",
        Fault("content_type", f"{answer.header('content-type')!r} is no completion's content type"),
        unreadable=1,
    )


def _kind(answer: Answer) -> str:
    """How to read the body: by its content type, or by its first bytes where that says nothing."""
    kind = answer.header("content-type").partition(";")[0].strip().lower()
    if kind == _JSON or kind.endswith("+json"):
        return _JSON
    if kind == _SSE and answer.body[:1] == b"{":
        return _JSON  # an error document under the type of the stream that was asked for
    if kind in _SNIFFED:
        start = answer.body[:64].lstrip()
        return _SSE if start.startswith(_SSE_STARTS) else _JSON if start[:1] == b"{" else kind
    return kind


def _http_fault(answer: Answer, status: int) -> Fault:
    body = answer.body
    if _kind(answer) == _SSE:
        for item in events_of(answer).items:
            if isinstance(item, Event) and item.data != b"[DONE]":
                body = item.data
                break
    return fault_of_body(status, body)


def _read_document(dialect: Dialect, answer: Answer) -> Completion:
    reading = Reading()
    outcome, fault = read_document(dialect, answer, reading)
    return frozen(dialect.name, answer, reading, outcome, fault, None)


def _read_stream(dialect: Dialect, answer: Answer) -> Completion:
    reading = Reading()
    events = events_of(answer)
    if events.cut:
        reading.stop(events.cut)
    try:
        read_items(reading, dialect, events.items)
    except TooMuch as error:
        reading.stop(str(error))
    reading.unreadable += _is_left_unread(events, answer)
    unseen = reading.cut or ("" if events.end_seen else BEYOND)
    ending = ending_of(answer, reading, unseen=unseen, left_over=events.left is not None)
    outcome, fault = outcome_of(ending)
    timeline = timeline_of(reading, answer.marks, whole=events.whole and not reading.cut)
    return frozen(dialect.name, answer, reading, outcome, fault, timeline)


def _is_left_unread(events: Events, answer: Answer) -> bool:
    """Bytes that are no event at all, or a last event without its blank line that nobody cut."""
    if not events.items:
        return bool(answer.body.strip())
    return events.left is not None and answer.transport == "complete"


def _bare(
    answer: Answer, dialect: str, outcome: str, fault: Fault | None, *, unreadable: int = 0
) -> Completion:
    streamed = _kind(answer) == _SSE
    return bare(answer, dialect, outcome, fault, streamed=streamed, unreadable=unreadable)
