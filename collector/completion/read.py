"""Read one answer: choose the dialect, undo the coding, go through it, freeze what was found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from collector.completion.answer import Answer
from collector.completion.counting import usage_of
from collector.completion.dialects import Dialect, dialect_of
from collector.completion.ending import Ending, cut_short, outcome_of
from collector.completion.faults import fault_of, fault_of_body
from collector.completion.freeze import bare, frozen, timeline_of
from collector.completion.model import Completion, Fault
from collector.completion.reading import Reading
from collector.completion.stream import BEYOND, events_of, read_items
from collector.content_coding import CodingError, CodingUnread, undo
from collector.json_text import TooMuch, Unreadable, loads
from shadow.sse import Event

_JSON, _SSE = "application/json", "text/event-stream"
_SNIFFED = ("", "text/plain", "application/octet-stream")
_SSE_STARTS = (b"data:", b"event:", b":", b"id:", b"retry:", b"\xef\xbb\xbf")


def read(answer: Answer) -> Completion:
    """What `answer` said and how it ended; an outcome always, never an exception."""
    dialect = dialect_of(answer.path)
    if dialect is None:
        return _bare(answer, "", "not_a_completion", Fault("path", "not a completion's path"))
    if answer.status is None:
        outcome, fault = cut_short(_ending(answer, Reading())) or _nothing(answer)
        return _bare(answer, dialect.name, outcome, fault)
    try:
        plain = _plain(answer)
    except CodingUnread as error:
        return _bare(answer, dialect.name, "truncated_capture", Fault("content_coding", str(error)))
    except CodingError as error:
        return _bare(
            answer, dialect.name, "truncated_upstream", Fault("content_coding", str(error))
        )
    return _read_plain(dialect, plain, answer.status)


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
        return _bare(answer, dialect.name, "http_error", _http_fault(answer, status))
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


def _read_stream(dialect: Dialect, answer: Answer) -> Completion:
    reading = Reading()
    events = events_of(answer)
    if events.cut:
        _cut(reading, events.cut)
    try:
        read_items(reading, dialect, events.items)
    except TooMuch as error:
        _cut(reading, str(error))
    unseen = reading.cut or ("" if events.end_seen else BEYOND)
    ending = _ending(answer, reading, unseen=unseen, left_over=events.left is not None)
    outcome, fault = outcome_of(ending)
    timeline = timeline_of(reading, answer.marks, whole=events.whole and not reading.cut)
    return frozen(dialect.name, answer, reading, outcome, fault, timeline)


def _read_document(dialect: Dialect, answer: Answer) -> Completion:
    reading = Reading()
    outcome, fault = _document_outcome(dialect, answer, reading)
    return frozen(dialect.name, answer, reading, outcome, fault, None)


def _document_outcome(
    dialect: Dialect, answer: Answer, reading: Reading
) -> tuple[str, Fault | None]:
    cut = cut_short(_ending(answer, reading, unseen=BEYOND if answer.gap_bytes else ""))
    if not answer.body:
        return cut or ("no_tokens", Fault(None, "the body is empty"))
    try:
        document = None if answer.gap_bytes else loads(answer.body)
    except TooMuch as error:
        return cut or _unread(reading, str(error))
    except Unreadable as error:
        reading.unreadable += cut is None
        return cut or ("not_a_completion", Fault("json", f"the body is no JSON: {error}"))
    if not isinstance(document, dict):
        return cut or ("not_a_completion", Fault("json", "the body is no JSON object"))
    try:
        return (
            outcome_of(_read_whole(dialect, answer, reading, document))
            if _is_of(dialect, reading, document)
            else ("not_a_completion", Fault("shape", f"the document is not of {dialect.name}"))
        )
    except TooMuch as error:
        return cut or _unread(reading, str(error))


def _unread(reading: Reading, why: str) -> tuple[str, Fault]:
    _cut(reading, why)
    return "truncated_capture", Fault("capture", why)


def _cut(reading: Reading, why: str) -> None:
    """There is more than we read of one answer: no fault of who sent it, and kept as it came."""
    reading.cut = why
    reading.unreadable += 1


def _is_of(dialect: Dialect, reading: Reading, document: dict[str, Any]) -> bool:
    reading.fault = fault_of(document)
    return dialect.read_document(reading, document) or reading.fault is not None


def _read_whole(
    dialect: Dialect, answer: Answer, reading: Reading, document: dict[str, Any]
) -> Ending:
    reading.identify(document)
    if dialect.usage_on_top:
        reading.count_usage(document.get("usage"))
    reading.terminal = True  # a document ends with its own last brace
    return _ending(answer, reading)


def _ending(
    answer: Answer, reading: Reading, *, unseen: str = "", left_over: bool = False
) -> Ending:
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


def _bare(answer: Answer, dialect: str, outcome: str, fault: Fault | None) -> Completion:
    return bare(answer, dialect, outcome, fault, streamed=_kind(answer) == _SSE)
