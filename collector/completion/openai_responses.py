"""OpenAI responses, streamed and whole. Output items become one choice.

response.completed and response.incomplete end a stream; response.failed and error are in-band
errors. response.created comes before any token.
"""

from __future__ import annotations

from typing import Any

from collector.completion.faults import fault_of
from collector.completion.model import Fault
from collector.completion.reading import ANSWER, NOTHING, REASONING, Parts, Reading

_USAGE = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "input_tokens_details": "prompt_tokens_details",
    "output_tokens_details": "completion_tokens_details",
}
_ENDINGS = ("response.completed", "response.incomplete")


def read_event(reading: Reading, event: dict[str, Any]) -> int:
    """Take one event; says what it carried."""
    kind, delta = event.get("type"), event.get("delta")
    if type(kind) is not str:
        return NOTHING
    if kind.endswith(".delta"):
        return _read_delta(reading.choice(0), kind, delta, event) if type(delta) is str else NOTHING
    if kind == "response.output_item.added":
        return _read_added(reading.choice(0), event)
    if kind in ("response.failed", "error"):
        reading.fault = reading.fault or _failure(event)
    elif kind in _ENDINGS:
        reading.terminal = True
        _read_ending(reading, event)
    elif kind == "response.created" and isinstance(response := event.get("response"), dict):
        reading.identify(response)
    return NOTHING


def read_document(reading: Reading, document: dict[str, Any]) -> bool:
    """Take a whole answer; False where it is no response."""
    if document.get("object") != "response" and type(document.get("output")) is not list:
        return False
    if document.get("status") == "failed":
        reading.fault = _failure({"response": document})
    _read_output(reading.choice(0), document)
    _finish(reading, document)
    return True


def count_usage(reading: Reading, usage: object) -> None:
    """Usage under the names of chat completions."""
    if isinstance(usage, dict):
        reading.count_usage({_USAGE.get(key, key): value for key, value in usage.items()})


def _read_delta(parts: Parts, kind: str, delta: str, event: dict[str, Any]) -> int:
    if not delta:
        return NOTHING
    if kind == "response.output_text.delta":
        parts.text.append(delta)
        return ANSWER
    if kind.startswith("response.reasoning"):
        parts.reasoning.append(delta)
        return REASONING
    if kind == "response.refusal.delta":
        parts.refusal.append(delta)
        return ANSWER
    if kind.endswith("_arguments.delta") or kind == "response.custom_tool_call_input.delta":
        parts.tool_calls().extend(event.get("output_index"), _item_id(event), "", delta)
        return ANSWER
    return NOTHING


def _item_id(event: dict[str, Any]) -> str:
    item = event.get("item_id")
    return item if isinstance(item, str) else ""


def _read_added(parts: Parts, event: dict[str, Any]) -> int:
    item = event.get("item")
    if not isinstance(item, dict) or not isinstance(name := item.get("name"), str):
        return NOTHING
    given = item.get("id")
    index = event.get("output_index")
    parts.tool_calls().extend(index, given if isinstance(given, str) else "", name, "")
    return ANSWER if name else NOTHING


def _read_ending(reading: Reading, event: dict[str, Any]) -> None:
    response = event.get("response")
    if not isinstance(response, dict):
        return
    parts = reading.choice(0)
    if not (parts.text or parts.reasoning or parts.refusal or parts.calls):
        _read_output(parts, response)  # an engine that sent no deltas
    reading.identify(response)
    _finish(reading, response)


def _finish(reading: Reading, response: dict[str, Any]) -> None:
    count_usage(reading, response.get("usage"))
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    reading.choice(0).finish(reason or response.get("status"))


def _read_output(parts: Parts, response: dict[str, Any]) -> None:
    output = response.get("output")
    for at, item in enumerate(output if isinstance(output, list) else ()):
        if not isinstance(item, dict):
            continue
        if isinstance(name := item.get("name"), str):
            given, arguments = item.get("id"), item.get("arguments", item.get("input"))
            text = arguments if isinstance(arguments, str) else ""
            parts.tool_calls().extend(at, given if isinstance(given, str) else "", name, text)
        for key in ("content", "summary"):
            pieces = item.get(key)
            for piece in pieces if isinstance(pieces, list) else ():
                if isinstance(piece, dict):
                    _read_piece(parts, piece, reasoning=item.get("type") == "reasoning")


def _read_piece(parts: Parts, piece: dict[str, Any], *, reasoning: bool) -> None:
    text, refusal = piece.get("text"), piece.get("refusal")
    if isinstance(text, str) and text:
        (parts.reasoning if reasoning else parts.text).append(text)
    if isinstance(refusal, str) and refusal:
        parts.refusal.append(refusal)


def _failure(event: dict[str, Any]) -> Fault:
    response = event.get("response")
    return fault_of(response) or fault_of(event) or Fault("response.failed", "the response failed")
