"""What is said: a function of the prompt alone (and of an engine's seed where answers differ)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

import orjson

from shadow.engine_sim.settings import Settings

LENGTH_SIGMA = 0.4
"""Spread of answers' lengths: sigma of a lognormal with the mean `tokens`."""

_WORDS = (
    "the a one each some this that first last next small large short long early late clear plain "
    "common simple exact steady open quiet useful careful actual model engine token prompt "
    "answer request reply stream batch cache layer weight server client queue moment second minute "
    "number value figure result reason question example method table column letter page word line "
    "river city mountain ocean garden bridge island forest winter summer morning evening music "
    "paper colour history science number theory language student teacher doctor engineer writer "
    "is was becomes remains holds gives takes makes keeps shows means follows begins ends grows "
    "moves turns reads writes counts measures compares explains describes because while when where "
    "before after between under over with without from into about against through and or but so "
    "therefore however often always rarely usually slowly quickly exactly roughly naïve café über "
    "東京 — 42 7 1969 two three four five seven"
)
WORDS: tuple[str, ...] = (*dict.fromkeys(" " + w for w in _WORDS.split()), ",", ".", "\n\n-")
"""The vocabulary: one word is one token. Texts with white space collapsed stay distinct."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer before it is framed; the joined tokens are its text."""

    tokens: tuple[str, ...]
    reasoning: tuple[str, ...]
    finish: Literal["stop", "length"]
    prompt_tokens: int


def prompt_digest(prompt: Any) -> bytes:
    """16 bytes that stand for the prompt: the messages, or the text to complete; nothing else."""
    return hashlib.blake2b(
        orjson.dumps(prompt, option=orjson.OPT_SORT_KEYS), digest_size=16
    ).digest()


def prompt_tokens(prompt: Any) -> int:
    """About four bytes a token, as English has it."""
    return len(orjson.dumps(prompt)) // 4 + 1


def compose(digest: bytes, settings: Settings, max_tokens: int | None, prompt: int) -> Answer:
    """The answer to a prompt, cut at `max_tokens`.

    Args:
        digest: of the prompt.
        settings: length, reasoning, and the share that differs.
        max_tokens: the request's bound; null is none. Reasoning does not count towards it.
        prompt: the prompt's length in tokens, passed through.
    """
    draw = Random(digest)  # noqa: S311 seeded on purpose
    wanted = _length(draw, settings.tokens)
    count = wanted if max_tokens is None else min(wanted, max_tokens)
    reasoning = tuple(draw.choices(WORDS, k=settings.reasoning_tokens))
    tokens = draw.choices(WORDS, k=count)
    own = Random(b"differ %d %b" % (settings.seed, digest))  # noqa: S311 seeded on purpose
    if own.random() < settings.differ:
        tokens = _diverge(own, tokens)
    return Answer(tuple(tokens), reasoning, "stop" if count == wanted else "length", prompt)


def _length(draw: Random, mean: int) -> int:
    """Lognormal with this mean (mu = ln mean - sigma^2/2), from 1 to eight times the mean."""
    factor = draw.lognormvariate(-(LENGTH_SIGMA**2) / 2, LENGTH_SIGMA)
    return max(1, round(mean * min(factor, 8.0)))


def _diverge(own: Random, tokens: list[str]) -> list[str]:
    """The same length, other words from some place in the first half on, as quantised models do."""
    at = own.randrange(len(tokens) // 2 + 1) if len(tokens) > 1 else 0
    shift = own.randrange(1, len(WORDS))
    first = WORDS[(WORDS.index(tokens[at]) + shift) % len(WORDS)]
    return [*tokens[:at], first, *own.choices(WORDS, k=len(tokens) - at - 1)]
