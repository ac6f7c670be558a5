"""How four engines spell the same events. Facts, not behaviour: `frames` fills the templates.

In the templates %(…)s are JSON values; `open` is a choice that goes on, `last` one that ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from shadow.engine_sim.settings import DialectName


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One engine's wire format for a streamed chat completion."""

    server: str
    """The Server field."""
    envelope: str
    open: str
    last: str
    role: str
    """The role chunk's delta; it goes out with the first token."""
    content: str
    reasoning: str
    reasoning_field: str
    finish_delta: str | None
    """The delta of a finish chunk of its own; null: the last token's chunk carries the reason."""
    event_end: str = "\n\n"
    joins_writes: bool = False
    """The first two events, and those after the last token, leave in one write."""
    refuses_other_models: bool = False
    error: str = '{"error":{"message":%(message)s,"type":%(type)s,"param":null,"code":%(code)d}}'
    drops_on_error: bool = False
    """A failure after the head closes the connection without a word."""
    done_after_error: bool = True


_HEAD = '"id":%(id)s,"object":"chat.completion.chunk","created":%(created)d,"model":%(model)s'
_CONTENT = '{"content":%(text)s}'

DIALECTS: dict[DialectName, Dialect] = {
    "vllm": Dialect(
        server="uvicorn",
        envelope="{" + _HEAD + ',"choices":[%(choice)s]%(rest)s}',
        open='{"index":0,"delta":%(delta)s,"logprobs":null,"finish_reason":null,"token_ids":null}',
        last='{"index":0,"delta":%(delta)s,"logprobs":null,"finish_reason":%(finish)s,'
        '"stop_reason":null,"token_ids":null}',
        role='{"role":"assistant","content":""}',
        content=_CONTENT,
        reasoning='{"reasoning":%(text)s}',
        reasoning_field="reasoning",
        finish_delta=None,
        refuses_other_models=True,
    ),
    "sglang": Dialect(
        server="uvicorn",
        envelope="{" + _HEAD + ',"choices":[%(choice)s]%(rest)s}',
        open='{"index":0,"delta":%(delta)s,"logprobs":null,"finish_reason":null,"matched_stop":null}',
        last='{"index":0,"delta":%(delta)s,"logprobs":null,"finish_reason":%(finish)s,'
        '"matched_stop":null}',
        role='{"role":"assistant","content":"","reasoning_content":null}',
        content='{"content":%(text)s,"reasoning_content":null}',
        reasoning='{"content":null,"reasoning_content":%(text)s}',
        reasoning_field="reasoning_content",
        finish_delta='{"content":null,"reasoning_content":null}',
        error='{"error":{"object":"error","message":%(message)s,"type":%(type)s,"param":null,'
        '"code":%(code)d}}',
    ),
    "trtllm": Dialect(
        server="uvicorn",
        envelope="{" + _HEAD + ',"choices":[%(choice)s]%(rest)s}',
        open='{"index":0,"delta":%(delta)s}',
        last='{"index":0,"delta":%(delta)s,"finish_reason":%(finish)s}',
        role='{"role":"assistant"}',
        content=_CONTENT,
        reasoning='{"content":"","reasoning_content":%(text)s}',
        reasoning_field="reasoning_content",
        finish_delta=None,
        event_end=" \n\n",
        error='{"object":"error","message":%(message)s,"type":%(type)s,"code":%(code)d}',
        drops_on_error=True,
    ),
    "llama.cpp": Dialect(
        server="llama.cpp",
        envelope='{"choices":[%(choice)s],"created":%(created)d,"id":%(id)s,"model":%(model)s,'
        '"object":"chat.completion.chunk"%(rest)s}',
        open='{"finish_reason":null,"index":0,"delta":%(delta)s}',
        last='{"finish_reason":%(finish)s,"index":0,"delta":%(delta)s}',
        role='{"role":"assistant","content":null}',
        content=_CONTENT,
        reasoning='{"reasoning_content":%(text)s}',
        reasoning_field="reasoning_content",
        finish_delta="{}",
        joins_writes=True,
        error='{"error":{"code":%(code)d,"message":%(message)s,"type":%(type)s}}',
        done_after_error=False,
    ),
}
