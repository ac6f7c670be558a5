"""Go through a streamed answer's events, whatever the dialect, and note where each one ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from collector.completion.answer import Answer
from collector.completion.dialects import Dialect
from collector.completion.faults import fault_of
from collector.completion.model import Fault
from collector.completion.reading import ANSWER, NOTHING, Reading
from collector.json_text import (
    MOST_OBJECTS,
    MOST_VALUES,
    Unreadable,
    clean,
    is_text,
    loads,
    quick_loads,
)
from shadow.sse import Comment, Decoder, Event, Item, Truncation

MOST_EVENTS = 250_000
MOST_LINES = 750_000
"""What is read of one answer; beyond it reading stops, and says so. The longest answers of real
engines have half as many events, of two or three lines each."""
_UNCOUNTED_BYTES = 1024 * 1024  # so little cannot hold too much
_PIECE_BYTES = 256 * 1024

_BLANK_LINES = (b"\n\n", b"\r\n\r\n", b"\r\r")
BEYOND = "its end lies beyond what was kept"
_DUPLICATES = "_dispatch"  # Dynamo repeats tool calls and reasoning in events of such types


class Events(NamedTuple):
    """The items of a body, and what stood unfinished at its end.

    `whole`: nothing is missing in between. `cut`: why not all of it was gone through, or "".
    """

    items: list[Item]
    left: Truncation | None
    whole: bool
    end_seen: bool
    cut: str = ""


def events_of(answer: Answer) -> Events:
    """Split a body into events; over a gap, reading goes on at the tail's first blank line."""
    if not answer.gap_bytes:
        decoder = Decoder()
        items, cut = _feed(decoder, answer.body)
        return Events(items, None if cut else decoder.close(), not cut, not cut, cut)
    head = len(answer.body) - answer.tail_bytes
    items, cut = _feed(Decoder(), answer.body[:head])
    tail = answer.body[head:]
    starts = [at + len(line) for line in _BLANK_LINES if (at := tail.find(line)) >= 0]
    start = min(starts, default=len(tail))
    if not tail[start:].strip():  # not one whole event: the last one began in the gap
        return Events(items, None, whole=False, end_seen=False, cut=cut)
    decoder = Decoder(offset=head + answer.gap_bytes + start)
    more, cut_again = _feed(decoder, tail[start:])
    left = None if cut_again else decoder.close()
    return Events(items + more, left, False, not cut_again, cut or cut_again)


def _feed(decoder: Decoder, body: bytes) -> tuple[list[Item], str]:
    """The items of the body as far as it is read, and why not further; "" where it all is."""
    if len(body) <= _UNCOUNTED_BYTES:
        return decoder.feed(body), ""
    items: list[Item] = []
    lines = objects = values = 0
    for at in range(0, len(body), _PIECE_BYTES):
        piece = body[at : at + _PIECE_BYTES]
        lines += piece.count(b"\n") + piece.count(b"\r")
        objects += piece.count(b"{") + piece.count(b"[")
        values += piece.count(b",")
        if lines > MOST_LINES:
            return items, f"more than {MOST_LINES} lines"
        if objects > MOST_OBJECTS or values > MOST_VALUES:
            return items, f"more than {MOST_OBJECTS} objects or {MOST_VALUES} values"
        items += decoder.feed(piece)
        if len(items) > MOST_EVENTS:
            return items[:MOST_EVENTS], f"more than {MOST_EVENTS} events"
    return items, ""


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
