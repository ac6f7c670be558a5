"""One body: its documents are read, its texts looked through, and both written over in place."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from shadow.redaction.breath import Pace, copied
from shadow.redaction.channels import Texts
from shadow.redaction.frames import Frame, Frames
from shadow.redaction.parts import offsets_of, split
from shadow.redaction.rules import Rules
from shadow.redaction.sheet import Document, Paper, documents, gap, is_events
from shadow.redaction.strings import Counts, Strings

_NUMBER: Final = re.compile(rb"-?[0-9]+")


class Bodies:
    """See the module.

    Args:
        rules: what to redact and how.
        strings: that look for it.
        pace: as `Redactor` has it.
    """

    def __init__(self, rules: Rules, strings: Strings, pace: Pace) -> None:
        self._strings, self._pace = strings, pace
        self._frames = Frames(rules, self._key, self._between, pace)

    def become(self, body: bytes, content_type: str, counts: Counts, tail_bytes: int) -> bytes:
        """The body, as long as it was; arguments as of `Redactor.body`.

        Raises:
            Exception: whatever keeps it from being looked through.
        """
        paper = Paper(body, self._pace)
        streamed = is_events(content_type, body)
        first, last = gap(body, tail_bytes, streamed=streamed)
        for begin, end in ((0, first), (last, len(body))):
            if begin >= end:
                continue
            texts = Texts(paper, self._strings, self._pace)
            try:
                for document in documents(body, begin, end, self._pace, streamed=streamed):
                    self._read(paper, document, texts, counts)
                texts.write_over(counts)
            finally:
                texts.let_go(self._pace.breathe)
        if last > first:
            paper.write(first, b"*" * (last - first))
        return paper.taken()

    def _read(self, paper: Paper, document: Document, texts: Texts, counts: Counts) -> None:
        """Its texts; what stands between them is written over."""
        place, raw = paper.opened(document)
        if not document.is_json:
            texts.add(("plain", document.kind), place, len(raw), None, escaped=False)
            return
        parts = split(raw, self._pace)
        frame = self._frames.of(parts)
        try:
            self._take(paper, place, parts, frame, texts)
        finally:
            if frame.let_go:
                frame.let_go()
        counts.update(frame.counts)

    def _take(
        self, paper: Paper, place: int, parts: Sequence[bytes], frame: Frame, texts: Texts
    ) -> None:
        offsets = offsets_of(parts)
        once = frame.let_go is not None
        for string, channel, rule in self._pace.through(frame.found) if once else frame.found:
            begin = offsets[2 * string + 1]
            size = offsets[2 * string + 2] - 1 - begin
            texts.add(channel, place + begin, size, rule)
        for at, new in self._pace.through(frame.between) if once else frame.between:
            paper.write(place + offsets[at], new)

    def _key(self, raw: bytes) -> bytes:
        return self._strings.become(raw, None, Counter(), escaped=True)

    def _between(self, part: bytes, counts: Counts) -> bytes:
        """Numbers, and what is no JSON."""
        new = self._strings.become(part, None, counts, escaped=False)
        if new == part:
            return part
        out = bytearray(new)
        for number in self._pace.through(_NUMBER.finditer(part)):
            begin, end = number.span()
            if new[begin:end] != part[begin:end]:  # a number stays one
                out[begin:end] = b"9" * (end - begin)
        return copied(out, 0, len(out))
