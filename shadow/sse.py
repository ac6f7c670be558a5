"""Server-sent events, sans-IO: bytes in, events out the moment their last byte is in.

The WHATWG algorithm (HTML, "Parsing an event stream" and "Interpreting an event stream").

Rule 1: a line ends with LF, CR or CRLF and with nothing else. A CR ends the line at once; the LF
that may follow it, in this read or a later one, is swallowed.
Rule 2: an event carries the offset of the byte that completed it, counted over everything fed, so
that a caller can look up when it arrived. Events are the same however the bytes are split.
Rule 3: what has no blank line after it is never an event; `close` reports it as a `Truncation`.

Two things are said beyond the standard, since engines hide errors there: comments are reported,
with the `event` field of their block, and so is a block that has an `event` field and no data.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

_BOM = b"\xef\xbb\xbf"
_LF, _CR, _COLON = 10, 13, 58
_MAX_RETRY_DIGITS = 18


class Event(NamedTuple):
    """A dispatched event. `data` is UTF-8 as it came: `text` reads it the way a browser would."""

    type: str
    """The `event` field; "message" where the block names none."""
    data: bytes
    """The `data` lines joined by LF."""
    id: str
    """The last `id` seen so far."""
    end: int
    """Bytes fed up to and including the one that completed the event."""

    @property
    def text(self) -> str:
        """`data` decoded, U+FFFD in place of what is not UTF-8."""
        return self.data.decode("utf-8", "replace")


class Comment(NamedTuple):
    """The comments of one block, or a block with an event type and no data (then `text` is "")."""

    type: str
    """The block's `event` field; "" where it names none."""
    text: str
    """The comment lines without their colon and one space, joined by LF."""
    end: int


class Truncation(NamedTuple):
    """What stood at the stream's end without the blank line that would have made it an event."""

    type: str
    data: bytes
    """The data lines that were complete, and the value of an unfinished data line."""
    comment: str
    end: int


Item: TypeAlias = Event | Comment


class Decoder:
    """Feed it bytes in pieces of any size. Linear in the bytes, whatever the length of a line."""

    def __init__(self, offset: int = 0) -> None:
        """`offset`: where in the stream the first byte stands; a BOM may stand at 0 only."""
        self.retry_ms: int | None = None
        self.last_id = ""
        self._offset = offset
        self._first_line = offset == 0
        self._swallow_lf = False
        self._partial: list[bytes] = []
        self._data: list[bytes] = []
        self._comments: list[bytes] = []
        self._type = ""

    def feed(self, piece: bytes) -> list[Item]:  # noqa: C901, PLR0912 - the hot path, below
        """The events that this piece completes."""
        # The hot path of reading answers: one loop, local names, C for everything per byte.
        items: list[Item] = []
        lines = piece.splitlines(keepends=True)  # of bytes: LF, CR, CRLF only
        if not lines:
            return items
        offset = self._offset
        self._offset = offset + len(piece)
        first = 0
        if self._swallow_lf:
            self._swallow_lf = False
            if lines[0] == b"\n":
                first = 1
                offset += 1
        if self._partial and first < len(lines):
            lines[first] = self._complete(lines[first])
            offset = self._offset - sum(map(len, lines[first:]))
        data = self._data
        last = 0
        for line in lines[first:] if first else lines:
            offset += len(line)
            last = line[-1]
            if last == _LF:
                # CRLF: the CR had ended the line already
                value = line[:-2] if line[-2:-1] == b"\r" else line[:-1]
            elif last == _CR:
                value = line[:-1]
            else:
                self._partial.append(line)
                break
            if self._first_line:
                self._first_line = False
                value = value.removeprefix(_BOM)
            if value.startswith(b"data: "):
                data.append(value[6:])
            elif value:
                self._field(value)
            elif data and not self._comments:
                end = offset - 1 if len(line) == 2 else offset
                payload = data[0] if len(data) == 1 else b"\n".join(data)
                items.append(Event(self._type or "message", payload, self.last_id, end))
                data.clear()
                self._type = ""
            else:
                self._dispatch(items, offset - 1 if len(line) == 2 else offset)
        else:
            self._swallow_lf = last == _CR
        return items

    def close(self) -> Truncation | None:
        """What is left at the end of the stream; None where it ended between two events."""
        if self._partial:
            line = b"".join(self._partial)
            self._partial.clear()
            if value := line.removeprefix(_BOM) if self._first_line else line:
                self._field(value)
                return self._left()
        return self._left() if self._data or self._comments or self._type else None

    def _left(self) -> Truncation:
        comment = _text(self._comments)
        left = Truncation(self._type or "message", b"\n".join(self._data), comment, self._offset)
        self._reset()
        return left

    def _complete(self, line: bytes) -> bytes:
        """The unfinished line with its next piece; kept in pieces until its end is in."""
        if line[-1] != _LF and line[-1] != _CR:
            return line
        self._partial.append(line)
        whole = b"".join(self._partial)
        self._partial.clear()
        return whole

    def _field(self, line: bytes) -> None:
        if line[0] == _COLON:
            self._comments.append(line[2:] if line[1:2] == b" " else line[1:])
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._type = value.decode("utf-8", "replace")
        elif name == b"id":
            if b"\0" not in value:
                self.last_id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
            self.retry_ms = int(value)

    def _dispatch(self, items: list[Item], end: int) -> None:
        if self._comments or (self._type and not self._data):
            items.append(Comment(self._type, _text(self._comments), end))
        if self._data:
            data = b"\n".join(self._data)
            items.append(Event(self._type or "message", data, self.last_id, end))
        self._reset()

    def _reset(self) -> None:
        self._data.clear()
        self._comments.clear()
        self._type = ""


def _text(lines: list[bytes]) -> str:
    return b"\n".join(lines).decode("utf-8", "replace")
