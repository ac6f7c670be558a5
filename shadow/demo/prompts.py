"""Prompts made from a seed: chats of varied length and shape, none of them twice."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import orjson

SYSTEMS = (
    "You are a concise assistant.",
    "You answer questions of customers of a small online shop. Be friendly and brief.",
    "You review code. Point at one problem at a time and show the fix.",
    "You translate between English, French and German. Answer with the translation alone.",
)
_ASKS = (
    "Explain {} to a new colleague.",
    "Write a short note about {}.",
    "What should I check first when {} does not work?",
    "Summarise what follows about {}.",
    "List three risks of {} and how to lower each.",
    "Compare {} with what we had before.",
)
_SUBJECTS = (
    "the invoice export",
    "our deployment on Friday",
    "a slow database query",
    "the new search page",
    "paged attention",
    "a flaky test",
    "the warehouse's label printer",
    "the holiday calendar",
    "rate limits",
    "a refund in two currencies",
    "the mobile login",
    "log rotation",
)
_WORDS = (
    "we saw that order number after update customer service region east west queue short long "
    "retry table index page cache warm cold morning evening report shows value lower higher than "
    "before team asked whether change could wait until release because tests were still running"
)
WORDS_MEDIAN, WORDS_SIGMA, WORDS_MOST = 40, 0.9, 1500
"""The context's length in words is lognormal: many short prompts, a few long ones."""


def chats(seed: int, count: int) -> Iterator[list[dict[str, str]]]:
    """`count` lists of messages. A number in each makes it unlike every other, so no engine finds
    an answer in its cache; one in four has an earlier turn.
    """
    draw = Random(seed)  # noqa: S311 seeded on purpose
    for number in range(count):
        messages = [{"role": "system", "content": draw.choice(SYSTEMS)}]
        if draw.random() < 0.25:
            messages += [_user(draw, number), {"role": "assistant", "content": _context(draw)}]
        yield [*messages, _user(draw, number)]


def body(messages: list[dict[str, str]], model: str, **fields: Any) -> bytes:
    """A chat completion request as JSON."""
    return orjson.dumps({"model": model, "messages": messages, **fields})


def _user(draw: Random, number: int) -> dict[str, str]:
    ask = draw.choice(_ASKS).format(draw.choice(_SUBJECTS))
    return {"role": "user", "content": f"[{number}] {ask} {_context(draw)}"}


def _context(draw: Random) -> str:
    words = min(WORDS_MOST, round(WORDS_MEDIAN * draw.lognormvariate(0, WORDS_SIGMA)))
    return " ".join(draw.choices(_WORDS.split(), k=words)) + "."
