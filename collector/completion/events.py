"""A streamed answer's body as events, within bounds; over a gap in the capture reading goes on."""

from __future__ import annotations

from typing import NamedTuple

from collector.completion.answer import Answer
from collector.json_text import MOST_OBJECTS, MOST_VALUES
from shadow.sse import Decoder, Item, Truncation

MOST_EVENTS = 250_000
MOST_LINES = 750_000
"""What is read of one answer; beyond it reading stops, and says so. The longest answers of real
engines have half as many events, of two or three lines each."""
_UNCOUNTED_BYTES = 1024 * 1024  # so little cannot hold too much
_PIECE_BYTES = 256 * 1024

_BLANK_LINES = (b"\n\n", b"\r\n\r\n", b"\r\r")


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
