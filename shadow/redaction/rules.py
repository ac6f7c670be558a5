"""What is to be redacted and how: the configuration's words, compiled once."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import regex

from shadow.redaction.detectors import builtin
from shadow.redaction.detectors.search import Find, Span, found_within
from shadow.redaction.paths import path_pattern
from shadow.redaction.spelling import PLAIN, class_of, masked

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Sequence

    from shadow.config.redaction import Redaction

PATTERN_SECONDS: Final = 0.25
"""What one of the configuration's own patterns may take in one text, or its body is withheld."""
_BLOCK_CHARACTERS: Final = 64 * 1024
_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyz0123456789"
_AS_LETTERS: Final = bytes(_LETTERS[n % len(_LETTERS)] for n in range(256))


@dataclass(frozen=True, slots=True)
class Rule:
    """What becomes of what was found."""

    name: str
    """As counted: a detector's, a pattern's, or `path`."""
    action: str
    """mask, hash, drop; or one of `TOKENS`'."""
    salt: bytes

    def instead_of(self, text: str) -> str | None:
        """As many characters of the same classes; equal texts give equal ones. None: blanks."""
        return next(self.over([text]))

    def over(self, texts: Sequence[str]) -> Iterator[str | None]:
        """The same of a text in pieces, piece by piece; where they are cut makes no difference."""
        if self.action == "drop":
            return (None for _ in texts)
        return _hashed(texts, self.salt) if self.action == "hash" else map(masked, texts)


def _hashed(texts: Sequence[str], salt: bytes) -> Iterator[str]:
    """Letters and digits of a salted hash in place of plain characters, masks for the others."""
    state = hmac.new(salt, digestmod=hashlib.sha256)
    for text in texts:
        state.update(text.encode("utf-8", "surrogatepass"))
    letters, left = _letters(state.digest(), sum(map(len, texts))), ""
    for text in texts:
        while len(left) < len(text):
            left += next(letters)
        said, left = left[: len(text)], left[len(text) :]
        yield said if text.isascii() and text.isalnum() else _over_plain(text, said)


def _over_plain(text: str, letters: str) -> str:
    classes = map(class_of, text)
    return "".join(new if c == PLAIN else c for c, new in zip(classes, letters, strict=True))


def _letters(digest: bytes, size: int) -> Iterator[str]:
    """So many letters and digits, which follow from the digest; a long block is one long call."""
    for at in range(0, size, _BLOCK_CHARACTERS):
        block = hashlib.shake_256(digest + (at.to_bytes(8, "big") if at else b""))
        raw = block.digest(min(_BLOCK_CHARACTERS, size - at))
        yield raw.translate(_AS_LETTERS).decode("ascii")


@dataclass(frozen=True, slots=True)
class Rules:
    """All of them: `paths` choose whole values, `finds` look into every text."""

    paths: tuple[tuple[re.Pattern[str], Rule], ...]
    finds: tuple[tuple[Find, Rule], ...]
    headers: frozenset[str]
    """Further fields to record, by their names in small letters."""

    def of_path(self, path: str) -> Rule | None:
        """The rule for a value at `messages[0].content`, or above it; the first one counts."""
        return next((rule for pattern, rule in self.paths if pattern.match(path)), None)


TOKENS: Final = Rules(
    tuple(
        (path_pattern(f"**.{key}"), Rule("tokens", action, b""))
        for key, action in (
            ("token_ids", "zeros"),
            ("prompt_token_ids", "zeros"),
            ("bytes", "zeros"),
            ("logprobs", "words"),
            ("prompt_logprobs", "words"),
        )
    ),
    (),
    frozenset(),
)
"""Tokens say a text once more, piece by piece, in bytes or numbers. `zeros`: a number becomes 0, so
that they can still be counted; `words`: numbers stay."""


def rules_of(said: Redaction) -> Rules:
    """The configuration's rules."""
    salt = said.salt.encode()
    finds = builtin(tuple(said.phone_regions))
    named = [(finds[name], Rule(name, said.action, salt)) for name in said.detectors]
    own = [
        (_own(regex.compile(each.regex)), Rule(each.name, each.action or said.action, salt))
        for each in said.patterns
    ]
    paths = [
        (path_pattern(each.path), Rule("path", each.action or said.action, salt))
        for each in said.paths
    ]
    return Rules(tuple(paths), (*own, *named), frozenset(said.headers))


def _own(pattern: regex.Pattern[str]) -> Find:
    def find(text: str) -> Iterator[Span]:
        return found_within(pattern, text, PATTERN_SECONDS)

    return find
