"""The one point at which records are redacted: bodies in place, texts as texts.

`body` never changes a body's length and never raises: what it cannot look through it withholds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, unquote

import regex

from shadow.redaction.bodies import Bodies
from shadow.redaction.breath import Pace
from shadow.redaction.rules import TOKENS, Rules
from shadow.redaction.strings import SHORTEST, Counts, Strings

MOST_BYTES: Final = 32 * 2**20
"""A larger body is withheld."""
MOST_SECONDS: Final = 2.0
"""Nor is more of the thread's time spent on one: 8 MiB take 0.5 s, dense numbers very long."""
MOST_CODINGS: Final = 4
_KNOWN: Final = 4096
_WIDE: Final = regex.compile(rb"(?:[ -~]\0{1,3}+){4}|(?:\0{1,3}+[ -~]){4}")
_TOKEN_KEYS: Final = (b'"logprobs"', b'"token_ids"', b'_token_ids"', b'_logprobs"')
_LOOKED_AT_BYTES: Final = 64 * 1024
_LONGEST_KEY: Final = 12

WITHHELD: Final = "withheld"


class Redactor:
    """See the module. One thread, the sender's.

    Args:
        rules: what to redact and how.
        breathe: called often; may sleep, so that the loop has its time.
    """

    def __init__(self, rules: Rules, breathe: Callable[[], None] = lambda: None) -> None:
        self.rules, self.breathe = rules, breathe
        self.totals: Counts = Counter()
        """All that was replaced, by rule, and `withheld`."""
        self._known: dict[str, tuple[str, Counts]] = {}
        self._pace = Pace(breathe)
        self._strings = Strings(rules, self._pace)
        self._bodies = Bodies(rules, self._strings, self._pace)
        self._tokens: Bodies | None = None

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
        """A request's path, looked at as it stands and as its percent-coding means it.

        Gateways code a path once more: so it is undone until nothing changes. What is coded more
        than `MOST_CODINGS` times is withheld.
        """
        plain = path = self.text(path, counts)
        for _ in range(MOST_CODINGS):
            coded, plain = plain, unquote(plain)
            if plain == coded:
                return path
            new = self.text(plain, counts)
            if new != plain:
                return quote(new, safe="/:*")
        if unquote(plain) == plain:
            return path
        counts[WITHHELD] += 1
        return ""

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
        if len(body) > MOST_BYTES or _is_wide(body):
            return None
        mine: Counts = Counter()
        self._pace.begin(MOST_SECONDS)
        try:
            new = self._bodies.become(body, content_type, mine, tail_bytes)
            if mine and self._has_tokens(new):
                new = self._without_tokens(new, content_type, mine, tail_bytes)
        except Exception:  # noqa: BLE001 fails closed: a pattern's time is up, memory, our mistake
            return None
        finally:
            self._pace.end()
        counts.update(mine)
        return new

    def _has_tokens(self, body: bytes) -> bool:
        for at in self._pace.through(range(0, len(body), _LOOKED_AT_BYTES)):
            some = body[at : at + _LOOKED_AT_BYTES + _LONGEST_KEY]
            if any(key in some for key in _TOKEN_KEYS):
                return True
        return False

    def _without_tokens(
        self, body: bytes, content_type: str, counts: Counts, tail_bytes: int
    ) -> bytes:
        """What was found stands in the tokens again, where the body has them: all of them go."""
        if self._tokens is None:
            self._tokens = Bodies(TOKENS, Strings(TOKENS, self._pace), self._pace)
        return self._tokens.become(body, content_type, counts, tail_bytes)


def _is_wide(body: bytes) -> bool:
    """UTF-16 or UTF-32, by its mark or by four of its letters: no rule reads it."""
    if body[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return True
    return b"\0" in body and _WIDE.search(body, concurrent=True) is not None
