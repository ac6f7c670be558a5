"""The one point at which records are redacted: bodies in place, texts as texts.

`body` never changes a body's length and never raises: what it cannot look through it withholds.
Pieces of a streamed text are joined before they are looked at, so that a secret is found however
it was cut.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, unquote

from shadow.redaction.frames import Channel, Frames, offset_of, split
from shadow.redaction.rules import TOKENS, Rule, Rules
from shadow.redaction.sheet import Document, events, is_events, joined, put, whole
from shadow.redaction.spelling import read
from shadow.redaction.strings import SHORTEST, Counts, Strings, over

MOST_BYTES: Final = 32 * 2**20
"""A larger body is withheld."""
MOST_SECONDS: Final = 2.0
"""Nor is more of the thread's time spent on one: 8 MiB take 0.5 s, dense numbers very long."""
_CONSTANT_BYTES: Final = 16
"""Equal pieces of more than this are a value that every event repeats, not a text."""
_KNOWN: Final = 4096
_NUMBER: Final = re.compile(rb"-?[0-9]+")

_TOKEN_KEYS: Final = (b'"logprobs"', b'"token_ids"', b'_token_ids"', b'_logprobs"')

WITHHELD: Final = "withheld"


@dataclass(slots=True)
class _Text:
    """The pieces of one channel."""

    escaped: bool
    rule: Rule | None
    places: list[tuple[int, int]] = field(default_factory=list)
    """(document's number, string's number)."""
    raws: list[bytes] = field(default_factory=list)


class Redactor:
    """See the module. One thread, the sender's.

    Args:
        rules: what to redact and how.
        breathe: called often; may sleep, so that the loop has its time.
    """

    def __init__(self, rules: Rules, breathe: Callable[[], None] = lambda: None) -> None:
        self.rules, self.breathe = rules, breathe
        self._tokens: Redactor | None = None
        self.totals: Counts = Counter()
        """All that was replaced, by rule, and `withheld`."""
        self._known: dict[str, tuple[str, Counts]] = {}
        self._strings = Strings(rules, breathe)
        self._frames = Frames(rules, self._key, self._between)

    # texts

    def text(self, text: str, counts: Counts) -> str:
        """A short text: a path, a name, a header's value."""
        if len(text) < SHORTEST:
            return text
        known = self._known.get(text)
        if known is None:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            known = self._known[text] = self._new_text(text)
        counts.update(known[1])
        return known[0]

    def _new_text(self, text: str) -> tuple[str, Counts]:
        counts: Counts = Counter()
        try:
            raw = text.encode("utf-8", "surrogateescape")
            new = self._strings.become(raw, None, counts, escaped=False)
            return new.decode("utf-8", "surrogateescape"), counts
        except Exception:  # noqa: BLE001 fails closed
            return "", Counter({WITHHELD: 1})

    def path(self, path: str, counts: Counts) -> str:
        """A request's path, looked at as it stands and as its percent-coding means it."""
        path = self.text(path, counts)
        if "%" not in path:
            return path
        plain = unquote(path)
        new = self.text(plain, counts)
        return path if new == plain else quote(new, safe="/:*")

    # bodies

    def body(
        self, body: bytes, content_type: str, counts: Counts, tail_bytes: int = 0
    ) -> bytes | None:
        """The body, as long as it was; None: it is to be withheld.

        Args:
            body: without a content coding.
            content_type: its field's value, "" where there is none.
            counts: what was replaced is added, by rule.
            tail_bytes: how many of the last bytes stand behind a gap.
        """
        if not body:
            return body
        if len(body) > MOST_BYTES:
            return None
        mine: Counts = Counter()
        self._strings.until_s = time.thread_time() + MOST_SECONDS
        try:
            new = self._body(body, content_type, mine, tail_bytes)
            if mine and any(key in new for key in _TOKEN_KEYS):
                new = self._without_tokens(new, content_type, mine, tail_bytes)
        except Exception:  # noqa: BLE001 fails closed: a pattern's time is up, memory, our mistake
            return None
        finally:
            self._strings.until_s = math.inf
        counts.update(mine)
        return new

    def _without_tokens(
        self, body: bytes, content_type: str, counts: Counts, tail_bytes: int
    ) -> bytes:
        """What was found stands in the tokens again, where the body has them: all of them go."""
        if self._tokens is None:
            self._tokens = Redactor(TOKENS, self.breathe)
        return self._tokens._body(body, content_type, counts, tail_bytes)  # noqa: SLF001 our own

    def _body(self, body: bytes, content_type: str, counts: Counts, tail_bytes: int) -> bytes:
        out = bytearray(body)
        end = len(body) - tail_bytes
        streamed = is_events(content_type, body)
        if not tail_bytes:
            self._documents(out, body, 0, end, counts, streamed=streamed)
            return bytes(out)
        # beside a gap there are halves of lines: nobody can say what stood in them
        last = body.rfind(b"\n", 0, end) + 1 if streamed else end
        first = body.find(b"\n", end) if streamed else -1
        first = len(body) if first < 0 else first  # the line's end stays: readers begin behind it
        self._documents(out, body, 0, last, counts, streamed=streamed)
        self._documents(out, body, first, len(body), counts, streamed=streamed)
        out[last:first] = b"*" * (first - last)
        return bytes(out)

    def _documents(
        self,
        out: bytearray,
        body: bytes,
        begin: int,
        end: int,
        counts: Counts,
        *,
        streamed: bool,
    ) -> None:
        if begin >= end:
            return
        documents = list(events(body, begin, end)) if streamed else [whole(body, begin, end)]
        texts, changes = self._read(body, documents, counts)
        for text in texts.values():
            self.breathe()
            self._look(text, changes, counts)
        for number, strings in changes.items():
            self.breathe()
            _rewrite(out, body, documents[number], strings)

    def _read(
        self, body: bytes, documents: Sequence[Document], counts: Counts
    ) -> tuple[dict[Channel, _Text], dict[int, dict[int, bytes]]]:
        """The texts by channel; changes so far: document → (string's or ~part's number → new)."""
        texts: dict[Channel, _Text] = {}
        changes: dict[int, dict[int, bytes]] = defaultdict(dict)
        for number, document in enumerate(documents):
            if not number % 16:
                self.breathe()
            raw = joined(body, document)
            if not document.is_json:
                _add(texts, ("plain", document.kind), None, (number, -1), raw, escaped=False)
                continue
            parts = split(raw)
            frame = self._frames.of(parts)
            for string, channel, rule in (*frame.values, *frame.keys):
                _add(texts, channel, rule, (number, string), parts[2 * string + 1], escaped=True)
            counts.update(frame.counts)
            for part, new in frame.between:
                changes[number][~part] = new
        return texts, changes

    def _look(self, text: _Text, changes: dict[int, dict[int, bytes]], counts: Counts) -> None:
        """One channel: its pieces as one text, then each alone, where anything begins and ends."""
        raws, first = text.raws, text.raws[0]
        if len(raws) > 1 and len(first) > _CONSTANT_BYTES and raws.count(first) == len(raws):
            new = self._strings.become(first, text.rule, counts, escaped=text.escaped)
            pieces = [new] * len(raws)
        else:
            pieces = self._pieces(text, counts)
        for (document, string), old, new in zip(text.places, raws, pieces, strict=True):
            if new != old:
                changes[document][string] = new

    def _pieces(self, text: _Text, counts: Counts) -> list[bytes]:
        raws = text.raws
        if len(raws) == 1:
            return [self._strings.become(raws[0], text.rule, counts, escaped=text.escaped)]
        mine: Counts = Counter()
        whole = self._strings.become(b"".join(raws), text.rule, mine, escaped=text.escaped)
        at, pieces = 0, []
        for raw in raws:
            pieces.append(whole[at : at + len(raw)])
            at += len(raw)
        apart = read(b"\n".join(raws), escaped=text.escaped)
        if text.rule is None and self._strings.any_found(apart):
            alone: Counts = Counter()
            for n, raw in enumerate(raws):
                new = self._strings.become(raw, None, alone, escaped=text.escaped)
                pieces[n] = over(raw, new, pieces[n])
            mine |= alone
        counts.update(mine)
        return pieces

    def _key(self, raw: bytes) -> bytes:
        return self._strings.become(raw, None, Counter(), escaped=True)

    def _between(self, part: bytes, counts: Counts) -> bytes:
        """Numbers, and what is no JSON."""
        new = self._strings.become(part, None, counts, escaped=False)
        if new == part:
            return part
        numbers = [m.span() for m in _NUMBER.finditer(part)]
        out = bytearray(new)
        for begin, end in numbers:
            if new[begin:end] != part[begin:end]:  # a number stays one
                out[begin:end] = b"9" * (end - begin)
        return bytes(out)


def _add(
    texts: dict[Channel, _Text],
    channel: Channel,
    rule: Rule | None,
    place: tuple[int, int],
    raw: bytes,
    *,
    escaped: bool,
) -> None:
    text = texts.get(channel)
    if text is None:
        text = texts[channel] = _Text(escaped, rule)
    text.places.append(place)
    text.raws.append(raw)


def _rewrite(out: bytearray, body: bytes, document: Document, strings: dict[int, bytes]) -> None:
    raw = joined(body, document)
    if -1 in strings and not document.is_json:
        put(out, document, strings[-1])
        return
    parts, new = split(raw), bytearray(raw)
    for number, said in strings.items():
        if number >= 0:
            at = offset_of(parts, number)
        else:
            part = ~number
            at = sum(map(len, parts[:part])) + 2 * (part // 2)
        new[at : at + len(said)] = said
    put(out, document, bytes(new))
