"""Go through a streamed answer's events, whatever the dialect, and note where each one ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from collector.completion.dialects import Dialect
from collector.completion.faults import fault_of
from collector.completion.model import Fault
from collector.completion.reading import ANSWER, NOTHING, Reading
from collector.json_text import Unreadable, clean, is_text, loads, quick_loads
from shadow.sse import Comment, Event, Item

_DUPLICATES = "_dispatch"  # Dynamo repeats tool calls and reasoning in events of such types


def read_items(  # noqa: C901 - the hot path is one loop
    reading: Reading, dialect: Dialect, items: Sequence[Item]
) -> None:
    """Fill `reading` from the events.

    Raises:
        TooMuch: they hold more than one answer may; what was read so far is in `reading`.
    """
    # The hot path: once a token. Local names, and one call of the dialect an event.
    read_event, data_ends, token_ends = dialect.read_event, reading.data_ends, reading.token_ends
    usage_on_top = dialect.usage_on_top
    identified = False
    for item in items:
        if type(item) is not Event:
            _read_comment(reading, item)
            continue
        data = item.data
        if not data.startswith(b"{") and not data.lstrip().startswith(b"{"):
            _read_word(reading, dialect, item)
            continue
        try:
            chunk = quick_loads(data)
        except ValueError:
            chunk = _read_tolerantly(reading, data)
        kind = item.type
        if kind != "message" and _is_beside(reading, kind, chunk):
            continue
        data_ends.append(item.end)
        carried = read_event(reading, chunk)
        if carried:
            token_ends.append(item.end)
            if len(token_ends) == 1:
                reading.first_tokens = _tokens_in_first(reading, chunk)
            if carried == ANSWER and reading.answer_end is None:
                reading.answer_end = item.end
        if usage_on_top and (usage := chunk.get("usage")):
            reading.count_usage(usage)
        if not identified or carried == NOTHING:
            reading.identify(chunk)
            identified = True
        if carried == NOTHING or "error" in chunk:
            reading.fault = reading.fault or fault_of(chunk)


def _read_tolerantly(reading: Reading, data: bytes) -> dict[str, Any]:
    """An event that is not quite JSON, or no UTF-8, counted; {} where it cannot be read."""
    reading.damaged += not is_text(data)
    try:
        chunk: dict[str, Any] = loads(data)
    except Unreadable:
        reading.unreadable += 1
        return {}
    return chunk


def _is_beside(reading: Reading, kind: str, chunk: object) -> bool:
    """Whether a named event is none of the answer's own: an error, a ping, a duplicate."""
    if kind == "error":
        reading.fault = reading.fault or fault_of(chunk) or Fault("error", "an error event")
        return False
    is_ping = kind == "ping" or (isinstance(chunk, dict) and chunk.get("type") == "ping")
    return is_ping or kind.endswith(_DUPLICATES)


def _read_word(reading: Reading, dialect: Dialect, event: Event) -> None:
    """Data that is no object: [DONE], a comment that a proxy made data, an error's text."""
    data = event.data.strip()
    if event.type == "error":
        text = clean(event.text.strip())
        reading.fault = reading.fault or Fault("error", text or "an error event")
    elif event.type == "ping" or data.startswith(b":"):
        return
    elif data == b"[DONE]":
        reading.terminal = reading.terminal or dialect.done_ends
    else:
        reading.unreadable += 1
    reading.data_ends.append(event.end)


def _read_comment(reading: Reading, comment: Comment | Event) -> None:
    """Dynamo's error: an event type and a comment, no data."""
    if comment.type == "error" and reading.fault is None:
        text = clean(comment.text.strip())
        reading.fault = Fault("error", text or "an error event without data")


def _tokens_in_first(reading: Reading, chunk: dict[str, object]) -> int:
    """Tokens in the first token event, if usage, token ids or log-probabilities say so."""
    usage = chunk.get("usage")
    count = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if type(count) is int and count > 0:
        return count
    parts = reading.choices.values()
    ids = sum(len(part.token_ids) for part in parts)
    return ids or sum(len(part.logprobs) for part in parts) or 1
