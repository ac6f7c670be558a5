"""How many tokens an answer cost, found by searching its bytes: no JSON is parsed for it.

The search is C's, over the answer's first 4 and last 16 KiB: a few microseconds. A quote within a
text is escaped in JSON, so no text of a model is taken for a count.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

FIRST_BYTES: Final = 4 * 1024
"""Anthropic's stream says the prompt's tokens in its first event."""
LAST_BYTES: Final = 16 * 1024
SAMPLED_BYTES: Final = 64 * 1024
"""Events are counted in so much of a stream and scaled."""
BYTES_A_TOKEN: Final = 4
"""The estimate where no count is said."""
_PROMPT: Final = b'"prompt_tokens"', b'"input_tokens"'
_COMPLETION: Final = b'"completion_tokens"', b'"output_tokens"'
_NUMBER: Final = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*(\d{1,12})")
_EVENTS: Final = b"data:", b"event:", b":", b"id:", b"retry:"


class Tokens(NamedTuple):
    """Of a request and its answer."""

    prompt: int
    completion: int


def tokens(request_bytes: int, answer_bytes: int, first: bytes, last: bytes) -> Tokens:
    """What an exchange cost: as the answer says, else as estimated.

    Args:
        request_bytes: the request's body.
        answer_bytes: the answer's body, kept or not.
        first: up to 64 KiB of its beginning.
        last: up to 16 KiB of its end.
    """
    prompt = _said(_PROMPT, first[:FIRST_BYTES], last)
    completion = _said(_COMPLETION, b"", last)
    return Tokens(
        request_bytes // BYTES_A_TOKEN if prompt is None else prompt,
        _estimated(answer_bytes, first) if completion is None else completion,
    )


def _said(names: tuple[bytes, bytes], first: bytes, last: bytes) -> int | None:
    """The number behind the last of these names; in `first` where `last` has none."""
    for where in (last, first):
        for name in names:
            at = where.rfind(name)
            number = _NUMBER.match(where, at + len(name)) if at >= 0 else None
            if number is not None:
                return int(number[1])
    return None


def _estimated(answer_bytes: int, first: bytes) -> int:
    """A token an event of a stream, or one for four bytes."""
    if not first.startswith(_EVENTS):
        return answer_bytes // BYTES_A_TOKEN
    events = first.count(b"\ndata:") + first.startswith(b"data:")
    return events * answer_bytes // max(len(first), 1)
