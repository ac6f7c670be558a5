"""Anthropic messages, streamed and whole.

Content blocks become one choice; message_stop ends the stream.
"""

from __future__ import annotations

from typing import Any

from collector.completion.faults import fault_of
from collector.completion.model import Fault
from collector.completion.reading import ANSWER, NOTHING, REASONING, Parts, Reading
from collector.json_text import said

_USAGE = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}


def read_event(reading: Reading, event: dict[str, Any]) -> int:
    """Take one event; says what it carried."""
    kind = event.get("type")
    if kind == "content_block_delta":
        count_usage(reading, event.get("usage"))
        return _read_delta(reading.choice(0), event)
    if kind == "content_block_start":
        return _read_block(reading.choice(0), event.get("content_block"), event.get("index"))
    if kind == "message_start":
        message = event.get("message")
        if isinstance(message, dict):
            reading.identify(message)
            count_usage(reading, message.get("usage"))
    elif kind == "message_delta":
        _finish(reading, event.get("delta"))
        count_usage(reading, event.get("usage"))
    elif kind == "message_stop":
        reading.terminal = True
    elif kind == "error":
        reading.fault = reading.fault or fault_of(event) or Fault("error", "an error event")
    return NOTHING


def read_document(reading: Reading, document: dict[str, Any]) -> bool:
    """Take a whole answer; False where it is no message."""
    blocks = document.get("content")
    if type(blocks) is not list:
        return False
    parts = reading.choice(0)
    for at, block in enumerate(blocks):
        _read_block(parts, block, at)
    _finish(reading, document)
    count_usage(reading, document.get("usage"))
    return True


def count_usage(reading: Reading, usage: object) -> None:
    """Usage under OpenAI's names; what a cache gave or got is part of the prompt."""
    if not isinstance(usage, dict):
        return
    named = {ours: usage[theirs] for theirs, ours in _USAGE.items() if theirs in usage}
    cached = usage.get("cache_read_input_tokens")
    written = usage.get("cache_creation_input_tokens")
    if type(cached) is int:
        named["cached_tokens"] = cached
    if type(named.get("prompt_tokens")) is int:
        named["prompt_tokens"] += sum(n for n in (cached, written) if type(n) is int)
    reading.count_usage(named)


def _finish(reading: Reading, fields: object) -> None:
    if isinstance(fields, dict):
        reading.choice(0).finish(fields.get("stop_reason"), fields.get("stop_sequence"))


def _read_delta(parts: Parts, event: dict[str, Any]) -> int:
    delta = event.get("delta")
    if not isinstance(delta, dict):
        return NOTHING
    if type(text := delta.get("text")) is str and text:
        parts.text.append(text)
        return ANSWER
    if type(thinking := delta.get("thinking")) is str and thinking:
        parts.reasoning.append(thinking)
        return REASONING
    if type(arguments := delta.get("partial_json")) is str and arguments:
        parts.tool_calls().extend(event.get("index"), "", "", arguments)
        return ANSWER
    return NOTHING


def _read_block(parts: Parts, block: object, index: object) -> int:
    if not isinstance(block, dict):
        return NOTHING
    if block.get("type") == "tool_use":
        return _read_call(parts, block, index)
    return _read_delta(parts, {"delta": block})


def _read_call(parts: Parts, block: dict[str, Any], index: object) -> int:
    given, name, arguments = block.get("id"), block.get("name"), block.get("input")
    parts.tool_calls().extend(
        index,
        given if isinstance(given, str) else "",
        name if isinstance(name, str) else "",
        said(arguments) if arguments else "",
    )
    return ANSWER if name else NOTHING
