"""The text of an answer by which two answers are the same or not, and its hash.

Unicode NFC, white space collapsed to one space and trimmed. Of each choice in order: its content,
its refusal, its tool calls (name and canonical arguments). Reasoning is compared only where no
choice holds anything else: a model thinks aloud differently and still answers the same.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from hashlib import blake2b

from collector.completion import Choice, Completion, ToolCall
from collector.json_text import Unreadable, loads, said

_NO_TEXT = frozenset({"openai_embeddings"})
_SHORT = 256  # characters
_BETWEEN = "\x1e"  # between choices and their parts, so that no text can imitate a border


def comparable(completion: Completion) -> str | None:
    """The text to compare; null where the answer is not complete, not whole, or no text.

    That nothing was said is a text too: an engine that ends some answers before their first word
    differs from one that does not.
    """
    if completion.outcome != "complete" or not completion.text_whole:
        return None
    if completion.dialect in _NO_TEXT:
        return None
    parts = [part for choice in completion.choices for part in _parts(choice)]
    if not parts:
        parts = [text for choice in completion.choices if (text := normal(choice.reasoning))]
    return _BETWEEN.join(parts)


def text_hash(text: str) -> int:
    """64 bits of BLAKE2b, big-endian: the same in every process and release."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def normal(text: str) -> str:
    """NFC, runs of white space as one space, none at the ends.

    A text with a heap of combining marks that no script has stays as it is: NFC sorts them in
    quadratic time, and a megabyte of them would take a day.
    """
    if not text.isascii() and not (len(text) > _SHORT and _heap().search(text)):
        text = unicodedata.normalize("NFC", text)
    return " ".join(text.split())


@cache
def _heap() -> re.Pattern[str]:
    """More marks on one letter than the Stream-Safe Text Format of UAX #15 has, by far."""
    marks = "".join(filter(unicodedata.combining, map(chr, range(sys.maxunicode + 1))))
    return re.compile(f"[{re.escape(marks)}]{{100}}")


def _parts(choice: Choice) -> list[str]:
    texts = (normal(choice.text), normal(choice.refusal), *map(_call, choice.tool_calls))
    return [text for text in texts if text]


def _call(call: ToolCall) -> str:
    return normal(f"{call.name} {canonical(call.arguments)}")


def canonical(arguments: str) -> str:
    """JSON arguments with sorted keys and no white space; what is no JSON, as it stands."""
    try:
        document = loads(arguments.encode())
    except Unreadable:
        return arguments
    return said(document, sort_keys=True) or arguments
