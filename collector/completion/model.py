"""What an answer said, whatever dialect it was spoken in: frozen, and free of wire shapes."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call; `arguments` is the text that the engine gave, joined over its deltas."""

    id: str | None
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token, its log-probability and its rivals'; null where none is finite."""

    token: str
    logprob: float | None
    top: tuple[tuple[str, float | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the n answers to a request; what the engine left out is "" or null."""

    index: int
    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    token_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """The engine's own counts; null where it gave none."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Tokens:
    """How many output tokens, and by what source; a pair never mixes sources.

    `source`: usage, token_ids, logprobs, tokenizer, events; "" with a null count if none has it.
    """

    count: int | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why an answer is not complete: the engine's words, or ours."""

    type: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """When the events of a streamed answer were complete, in ns since the request was sent."""

    data_ns: tuple[int, ...] = ()
    """Every data event: one with data that is no ping."""
    token_ns: tuple[int, ...] = ()
    """Every token event: non-empty content, reasoning, refusal or tool-call text."""
    answer_ns: int | None = None
    """The first token event that is not reasoning."""
    first_tokens: int = 1
    """Tokens in the first token event, where the engine says so."""
    reads: int = 0
    """Distinct reads in which at least one data event became complete."""
    whole: bool = True
    """False where a gap in the capture hides some events."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer, read. `outcome` is contracts' vocabulary; `fault` is its reason."""

    dialect: str
    """"" where the path is no completion's."""
    streamed: bool
    status: int | None
    transport: str
    outcome: str
    fault: Fault | None = None
    model: str | None = None
    fingerprint: str | None = None
    choices: tuple[Choice, ...] = ()
    usage: Usage | None = None
    tokens: Tokens = Tokens()
    timeline: Timeline = Timeline()
    unreadable_events: int = 0
    """Data events that are neither JSON nor a known word; 1 for a body of which nothing could be
    read, or not its end: its coding is unknown or damaged, it is no JSON, of no shape of the
    dialect, longer than we read, has no event or no whole last one."""
    damaged_events: int = 0
    """Data events, or documents, with bytes that are no UTF-8; U+FFFD stands for each."""
    cumulative: bool = False
    """The engine repeated the whole text where deltas belong; it was undone."""
    text_whole: bool = True
    """False where a gap in the capture hides some of the text."""
    server: dict[str, float] = field(default_factory=dict)
    """Figures that the engine itself reported (timings, metrics), as it named them."""
