"""A captured body, redacted without its content coding.

What cannot be looked through is withheld, so that the reader sees a capture that was cut, and
blames nobody: no bytes, all of them counted as missing. Damaged content coding stays damaged, since
that is the upstream's failure: its bytes become zeros.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shadow.content_coding import CodingError, CodingUnread, undo
from shadow.redaction.breath import copied
from shadow.redaction.redactor import MOST_BYTES, WITHHELD, Redactor
from shadow.redaction.strings import Counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shadow.exchange import Headers

UNDONE: Final = "x-shadow-content-encoding"
"""What the field content-encoding is called in a record whose body is kept without it."""
_CODING: Final = "content-encoding"


@dataclass(slots=True)
class Kept:
    """A captured body with its marks; see `Exchange`."""

    body: bytes | bytearray
    truncated_bytes: int
    tail_bytes: int
    times: array[int]
    ends: array[int]


def redact(
    redactor: Redactor, kept: Kept, lines: Sequence[bytes], fields: Headers, counts: Counts
) -> Headers:
    """Redact the body in place.

    Args:
        redactor: of this thread.
        kept: what is changed.
        lines: the head's, by which the body is read.
        fields: the head's as recorded.
        counts: what was replaced is added, by rule.

    Returns:
        The fields; that of a coding which was undone under another name.
    """
    coding = _said(lines, _CODING.encode())
    coded = coding.strip().lower() not in ("", "identity")
    try:
        if coded:
            _undo(kept, coding)
    except CodingError:
        kept.body = bytes(len(kept.body))
        return fields
    except CodingUnread:
        _withhold(kept, counts)
        return fields
    _look_through(redactor, kept, _said(lines, b"content-type"), counts)
    if not coded:
        return fields
    return [(UNDONE if name.lower() == _CODING else name, value) for name, value in fields]


def _look_through(redactor: Redactor, kept: Kept, kind: str, counts: Counts) -> None:
    new = redactor.body(copied(kept.body, 0, len(kept.body)), kind, counts, kept.tail_bytes)
    if new is None:
        _withhold(kept, counts)
    else:
        kept.body = new


def _undo(kept: Kept, coding: str) -> None:
    """The body as it was before its coding; of one with a gap, what stands before the gap."""
    end = len(kept.body) - kept.tail_bytes
    marks = [mark for mark in zip(kept.times, kept.ends, strict=True) if mark[1] <= end]
    plain = undo(coding, copied(kept.body, 0, end), marks, MOST_BYTES)
    kept.body = plain.body
    kept.truncated_bytes += kept.tail_bytes
    kept.tail_bytes = 0
    if len(kept.times):
        kept.times, kept.ends = array("q"), array("q")
        for at, end in plain.marks:
            kept.times.append(at)
            kept.ends.append(end)


def _withhold(kept: Kept, counts: Counts) -> None:
    counts[WITHHELD] += 1
    kept.truncated_bytes += len(kept.body)
    kept.body, kept.tail_bytes = b"", 0


def _said(lines: Sequence[bytes], name: bytes) -> str:
    """All values of a field, by commas."""
    values = []
    for line in lines:
        spelled, _, value = line.partition(b":")
        if len(spelled) == len(name) and spelled.lower() == name:
            values.append(value.strip().decode("latin-1"))
    return ",".join(values)
