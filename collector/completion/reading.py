"""What a dialect's reader fills in while it goes through an answer; `assemble` freezes it.

The accumulators are mutable since one is touched a token; nothing outside this package sees them.
"""

from __future__ import annotations

from typing import Any

from collector.completion.model import Choice, Fault, TokenLogprob
from collector.completion.server_timings import said_in
from collector.completion.tool_calls import ToolCalls
from collector.json_text import TooMuch, clean, finite

NOTHING, REASONING, ANSWER = 0, 1, 2
"""What an event carried: no token, reasoning alone, or some of the answer."""


MOST_CHOICES = 10_000
"""What one answer may hold of them; engines give 128, or one for each prompt of a batch."""

_MOST_INDEX = 2**31


class Parts:
    """The pieces of one choice."""

    __slots__ = (
        "calls",
        "finish_reason",
        "logprobs",
        "reasoning",
        "refusal",
        "stop_reason",
        "text",
        "token_ids",
    )

    def __init__(self) -> None:
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.refusal: list[str] = []
        self.calls: ToolCalls | None = None
        self.finish_reason: str | None = None
        self.stop_reason: str | int | None = None
        self.logprobs: list[TokenLogprob] = []
        self.token_ids: list[int] = []

    def tool_calls(self) -> ToolCalls:
        """The calls, begun when the first is spoken of."""
        if self.calls is None:
            self.calls = ToolCalls()
        return self.calls

    def finish(self, reason: object, stop: object = None) -> None:
        """Keep the last reason that was given."""
        if isinstance(reason, str) and reason:
            self.finish_reason = clean(reason)
        if isinstance(stop, str):
            self.stop_reason = clean(stop)
        elif type(stop) is int and abs(stop) < 2**63:
            self.stop_reason = stop

    def freeze(self, index: int, text: str) -> Choice:
        """The choice; `text` is the caller's reading of the pieces."""
        return Choice(
            index=index,
            text=clean(text),
            reasoning=clean("".join(self.reasoning)),
            refusal=clean("".join(self.refusal)),
            tool_calls=self.calls.freeze() if self.calls else (),
            finish_reason=self.finish_reason,
            stop_reason=self.stop_reason,
            logprobs=tuple(self.logprobs),
            token_ids=tuple(self.token_ids),
        )


class Reading:
    """Everything that was read of one answer so far."""

    __slots__ = (
        "answer_end",
        "choices",
        "cut",
        "damaged",
        "data_ends",
        "fault",
        "fingerprint",
        "first_tokens",
        "model",
        "server",
        "terminal",
        "token_ends",
        "unreadable",
        "usage",
        "vectors",
    )

    def __init__(self) -> None:
        self.choices: dict[int, Parts] = {}
        self.usage: dict[str, Any] | None = None
        self.model: str | None = None
        self.fingerprint: str | None = None
        self.fault: Fault | None = None
        self.terminal = False
        self.data_ends: list[int] = []
        self.token_ends: list[int] = []
        self.answer_end: int | None = None
        self.first_tokens = 0
        self.unreadable = 0
        self.damaged = 0
        self.cut = ""
        """Why reading stopped before the end; "" where it did not."""
        self.server: dict[str, float] = {}
        self.vectors = 0

    def stop(self, why: str) -> None:
        """There is more than we read of one answer: nobody's fault, and kept as it came."""
        self.cut = why
        self.unreadable += 1

    def choice(self, index: object) -> Parts:
        """The pieces of the choice at `index`; an index that is no index is 0.

        Raises:
            TooMuch: there are more than one answer may have.
        """
        key = index if type(index) is int and -1 < index < _MOST_INDEX else 0
        parts = self.choices.get(key)
        if parts is None:
            if len(self.choices) >= MOST_CHOICES:
                raise TooMuch(f"more than {MOST_CHOICES} choices")
            parts = self.choices[key] = Parts()
        return parts

    def identify(self, document: dict[str, Any]) -> None:
        """Model, fingerprint, and the engine's own timings, where the document names them."""
        model, fingerprint = document.get("model"), document.get("system_fingerprint")
        if isinstance(model, str) and model:
            self.model = clean(model)
        if isinstance(fingerprint, str) and fingerprint:
            self.fingerprint = clean(fingerprint)
        self.server.update(said_in(document))

    def count_usage(self, usage: object) -> None:
        """Later usage replaces earlier, key by key; it is never summed."""
        if isinstance(usage, dict):
            if self.usage is None:
                self.usage = {}
            self.usage.update(usage)


def logprob(
    token: object, value: object, top: tuple[tuple[str, float | None], ...]
) -> TokenLogprob:
    """A token's log-probability from wire values of any type."""
    return TokenLogprob(clean(token) if isinstance(token, str) else "", finite(value), top)
