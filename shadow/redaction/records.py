"""What of a record is redacted: every field that a client or an engine wrote into."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shadow.capture.redact import PATH_CHARACTERS, redacted
from shadow.redaction.kept import Kept, redact
from shadow.redaction.redactor import WITHHELD, Redactor
from shadow.redaction.strings import Counts
from shadow.target import path_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shadow.capture.request import Request
    from shadow.capture.wire import Moving
    from shadow.exchange import Headers
    from shadow.relay.answer import AnswerHead

_MOST_MODEL: Final = 255
"""A model's name is cut at 256 characters: one that long may hold a part of anything."""


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
        fields = redact(redactor, kept, plain, fields, counts)
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
    return redact(redactor, kept, lines, fields, counts) if kept.body else fields


def _fields(redactor: Redactor, lines: Sequence[bytes], counts: Counts) -> Headers:
    """The fields that may be recorded, their values looked through."""
    more = redactor.rules.headers
    return redacted(lines, more, lambda value: redactor.text(value, counts))
