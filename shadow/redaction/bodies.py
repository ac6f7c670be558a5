"""One body: its documents are read, its texts looked through, and both written over in place."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from shadow.redaction.channels import Text, become
from shadow.redaction.frames import Frames
from shadow.redaction.parts import offset_of, split
from shadow.redaction.place import Channel
from shadow.redaction.rules import Rules
from shadow.redaction.sheet import Document, documents, gap, is_events, joined, put
from shadow.redaction.strings import Counts, Strings

_NUMBER: Final = re.compile(rb"-?[0-9]+")

Changes = dict[int, dict[int, bytes]]
"""Document's number → (place among its parts and strings → what stands there from now on)."""


class Bodies:
    """See the module.

    Args:
        rules: what to redact and how.
        strings: that look for it.
        breathe: as `Redactor` has it.
    """

    def __init__(self, rules: Rules, strings: Strings, breathe: Callable[[], None]) -> None:
        self._strings, self._breathe = strings, breathe
        self._frames = Frames(rules, self._key, self._between)

    def become(self, body: bytes, content_type: str, counts: Counts, tail_bytes: int) -> bytes:
        """The body, as long as it was; arguments as of `Redactor.body`.

        Raises:
            Exception: whatever keeps it from being looked through.
        """
        out = bytearray(body)
        streamed = is_events(content_type, body)
        first, last = gap(body, tail_bytes, streamed=streamed)
        for begin, end in ((0, first), (last, len(body))):
            found = documents(body, begin, end, streamed=streamed)
            self._write_over(out, body, found, counts)
        out[first:last] = b"*" * (last - first)
        return bytes(out)

    def _write_over(
        self, out: bytearray, body: bytes, found: Sequence[Document], counts: Counts
    ) -> None:
        texts, changes = self._read(body, found, counts)
        for text in texts.values():
            self._breathe()
            pieces = become(text, self._strings, counts)
            for (document, at), old, new in zip(text.places, text.raws, pieces, strict=True):
                if new != old:
                    changes[document][at] = new
        for document, changed in changes.items():
            self._breathe()
            _rewrite(out, body, found[document], changed)

    def _read(
        self, body: bytes, found: Sequence[Document], counts: Counts
    ) -> tuple[dict[Channel, Text], Changes]:
        """The texts by channel; the changes of what stands between them."""
        texts: dict[Channel, Text] = {}
        changes: Changes = defaultdict(dict)
        for number, document in enumerate(found):
            if not number % 16:
                self._breathe()
            parts = _parts(body, document)
            if not document.is_json:
                text = texts.setdefault(("plain", document.kind), Text(escaped=False, rule=None))
                text.add((number, 0), parts[0])
                continue
            frame = self._frames.of(parts)
            for string, channel, rule in (*frame.values, *frame.keys):
                text = texts.get(channel) or texts.setdefault(channel, Text(True, rule))
                text.add((number, 2 * string + 1), parts[2 * string + 1])
            counts.update(frame.counts)
            for part, new in frame.between:
                changes[number][part] = new
        return texts, changes

    def _key(self, raw: bytes) -> bytes:
        return self._strings.become(raw, None, Counter(), escaped=True)

    def _between(self, part: bytes, counts: Counts) -> bytes:
        """Numbers, and what is no JSON."""
        new = self._strings.become(part, None, counts, escaped=False)
        if new == part:
            return part
        out = bytearray(new)
        for number in _NUMBER.finditer(part):
            begin, end = number.span()
            if new[begin:end] != part[begin:end]:  # a number stays one
                out[begin:end] = b"9" * (end - begin)
        return bytes(out)


def _parts(body: bytes, document: Document) -> list[bytes]:
    """Split at its strings; what is no JSON is one part."""
    raw = joined(body, document)
    return split(raw) if document.is_json else [raw]


def _rewrite(out: bytearray, body: bytes, document: Document, changed: Mapping[int, bytes]) -> None:
    parts = _parts(body, document)
    new = bytearray(joined(body, document))
    for at, said in changed.items():
        begin = offset_of(parts, at)
        new[begin : begin + len(said)] = said
    put(out, document, bytes(new))
