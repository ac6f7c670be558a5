"""What the readers are given: the bytes of one answer, and how they came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collector.tokenizer import CountTokens

Marks = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer as it was captured.

    `marks`: (elapsed_ns, end), by elapsed_ns after the request was sent body[:end] had arrived,
    counted over the whole body. Of a body with a gap, `gap_bytes` are missing before the last
    `tail_bytes` of `body`.
    """

    path: str
    status: int | None
    headers: Sequence[tuple[str, str]]
    body: bytes
    marks: Marks
    transport: str
    error: str | None = None
    gap_bytes: int = 0
    tail_bytes: int = 0
    count_tokens: CountTokens | None = None
    """The arm's configured tokenizer."""

    def header(self, name: str) -> str:
        """All values of a field, joined by a comma; "" where there is none."""
        return ",".join(value for key, value in self.headers if key.lower() == name)
