"""What of a record is redacted: every field that a client or an engine wrote into.

What cannot be looked through is withheld, so that the reader sees a capture that was cut, and
blames nobody: no bytes, all of them counted as missing. Damaged content coding stays damaged, since
that is the upstream's failure: its bytes become zeros.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shadow.capture.redact import PATH_CHARACTERS, redacted
from shadow.content_coding import CodingError, CodingUnread, undo
from shadow.redaction.redactor import MOST_BYTES, WITHHELD, Redactor
from shadow.redaction.strings import Counts
from shadow.target import path_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shadow.capture.request import Request
    from shadow.capture.wire import Moving
    from shadow.exchange import Headers
    from shadow.relay.answer import AnswerHead

UNDONE: Final = "x-shadow-content-encoding"
"""What the field content-encoding is called in a record whose body is kept without it."""
_CODING: Final = "content-encoding"
_MOST_MODEL: Final = 255
"""A model's name is cut at 256 characters: one that long may hold a part of anything."""


@dataclass(slots=True)
class Kept:
    """A captured body with its marks; see `Exchange`."""

    body: bytes | bytearray
    truncated_bytes: int
    tail_bytes: int
    times: array[int]
    ends: array[int]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, redacted once for all arms' records."""

    body: bytes | None
    path: str
    headers: Headers
    facts: dict[str, object]
    counts: Counts


class Veil:
    """Redacts the records of a worker; one thread, the sender's."""

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor

    def asked(self, request: Request) -> Asked:
        """A request as records may tell it; looked through once."""
        if request.veiled is None:
            request.veiled = _asked(self.redactor, request)
        return request.veiled

    def record(
        self,
        moving: Moving,
        request: Request,
        head: AnswerHead | None,
        body: bytes | bytearray,
        marks: tuple[array[int], array[int]],
    ) -> tuple[bytes | bytearray, tuple[array[int], array[int]]]:
        """Redact a record's fields, in place, but for the request's own.

        Returns:
            The answer's body and marks as they may be recorded.
        """
        told, counts, text = self.asked(request), Counter[str](), self.redactor.text
        kept = Kept(body, moving["truncated_bytes"], moving["tail_bytes"], *marks)
        if head is not None:
            moving["headers"] = _answered(self.redactor, kept, head.lines[1:], counts)
        moving["path"], moving["request_facts"] = told.path, told.facts
        moving["request_changes"] = [text(said, counts) for said in moving["request_changes"]]
        if moving["error"] is not None:
            moving["error"] = text(moving["error"], counts)
        moving["captured_bytes"] = len(kept.body)
        moving["truncated_bytes"], moving["tail_bytes"] = kept.truncated_bytes, kept.tail_bytes
        counts.update(told.counts)
        moving["redactions"] = dict(counts)
        self.redactor.totals.update(counts)
        return kept.body, (kept.times, kept.ends)


def _asked(redactor: Redactor, request: Request) -> Asked:
    """A request as records may tell it."""
    counts: Counts = Counter()
    lines, facts = request.head.lines[1:], request.facts()
    fields = _fields(redactor, lines, counts)
    path = redactor.path(path_of(request.head.target).decode("latin-1"), counts)[:PATH_CHARACTERS]
    new: bytes | None = b""
    if request.body:
        kept = Kept(request.body, 0, 0, array("q"), array("q"))
        plain = [] if request.expanded else lines
        fields = _answer(redactor, kept, plain, fields, counts)
        new = None if kept.truncated_bytes else bytes(kept.body)
    return Asked(new, path, fields, {**facts, "model": _model(redactor, facts, counts)}, counts)


def _model(redactor: Redactor, facts: dict[str, object], counts: Counts) -> str | None:
    model = facts.get("model")
    if not isinstance(model, str):
        return None
    rule = redactor.rules.of_path(".model")
    if rule is not None:
        return rule.instead_of(model) or ""
    if len(model) > _MOST_MODEL:
        counts[WITHHELD] += 1
        return ""
    return redactor.text(model, counts)


def _answered(redactor: Redactor, kept: Kept, lines: Sequence[bytes], counts: Counts) -> Headers:
    """The answer's fields as recorded; `kept` is changed in place."""
    fields = _fields(redactor, lines, counts)
    return _answer(redactor, kept, lines, fields, counts) if kept.body else fields


def _fields(redactor: Redactor, lines: Sequence[bytes], counts: Counts) -> Headers:
    """The fields that may be recorded, their values looked through."""
    more = redactor.rules.headers
    return redacted(lines, more, lambda value: redactor.text(value, counts))


def _answer(
    redactor: Redactor, kept: Kept, lines: Sequence[bytes], fields: Headers, counts: Counts
) -> Headers:
    coding = _said(lines, _CODING.encode())
    if coding.strip().lower() not in ("", "identity"):
        try:
            _undo(kept, coding)
        except CodingError:
            kept.body = bytes(len(kept.body))
            return fields
        except CodingUnread:
            _withhold(kept, counts)
            return fields
        fields = [(UNDONE if name.lower() == _CODING else name, value) for name, value in fields]
    kind = _said(lines, b"content-type")
    new = redactor.body(bytes(kept.body), kind, counts, kept.tail_bytes)
    if new is None:
        _withhold(kept, counts)
    else:
        kept.body = new
    return fields


def _undo(kept: Kept, coding: str) -> None:
    """The body as it was before its coding; of one with a gap, what stands before the gap."""
    end = len(kept.body) - kept.tail_bytes
    marks = [mark for mark in zip(kept.times, kept.ends, strict=True) if mark[1] <= end]
    plain = undo(coding, bytes(kept.body[:end]), marks, MOST_BYTES)
    kept.body = plain.body
    kept.truncated_bytes += kept.tail_bytes
    kept.tail_bytes = 0
    if len(kept.times):
        kept.times = array("q", [at for at, _ in plain.marks])
        kept.ends = array("q", [end for _, end in plain.marks])


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
