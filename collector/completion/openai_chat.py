"""OpenAI chat completions, streamed and whole, as real engines speak it.

Both spellings of reasoning are read (`reasoning_content`, `reasoning`), content given as a list
of parts, the older `function_call`, and tool calls as `tool_calls` describes.
"""

from __future__ import annotations

from typing import Any

from collector.completion.logprobs import add_logprobs
from collector.completion.reading import ANSWER, NOTHING, REASONING, Parts, Reading

_MOST_TOKEN_ID = 2**32


def read_event(reading: Reading, chunk: dict[str, Any]) -> int:
    """Take one chunk; says what it carried."""
    carried = NOTHING
    choices = chunk.get("choices")
    for choice in choices if type(choices) is list else ():
        if type(choice) is not dict:
            continue
        parts = reading.choice(choice.get("index"))
        delta = choice.get("delta")
        if type(delta) is dict:
            content = delta.get("content")
            if content and type(content) is str and len(delta) == 1:  # almost every event
                parts.text.append(content)
                carried = ANSWER
            else:
                carried = max(carried, read_message(parts, delta))
        elif type(message := choice.get("message")) is dict:
            carried = max(carried, read_message(parts, message))
        read_choice(parts, choice)
    return carried


def read_document(reading: Reading, document: dict[str, Any]) -> bool:
    """Take a whole answer; False where it is no chat completion."""
    choices = document.get("choices")
    if type(choices) is not list:
        return False
    for choice in choices:
        if type(choice) is dict:
            parts = reading.choice(choice.get("index"))
            message = choice.get("message")
            read_message(parts, message if type(message) is dict else {})
            read_choice(parts, choice)
    return True


def read_choice(parts: Parts, choice: dict[str, Any]) -> None:
    """What stands beside the message: how it finished, log-probabilities, token ids."""
    if reason := choice.get("finish_reason"):
        stop = choice.get("stop_reason")
        parts.finish(reason, choice.get("matched_stop") if stop is None else stop)
    if logprobs := choice.get("logprobs"):
        add_logprobs(parts, logprobs)
    if ids := choice.get("token_ids"):
        add_token_ids(parts, ids)


def read_message(parts: Parts, message: dict[str, Any]) -> int:
    """A message or delta into `parts`; says what it carried."""
    carried = NOTHING
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if reasoning and type(reasoning) is str:
        parts.reasoning.append(reasoning)
        carried = REASONING
    content = message.get("content")
    if content:
        carried = max(carried, _read_content(parts, content))
    refusal = message.get("refusal")
    if refusal and type(refusal) is str:
        parts.refusal.append(refusal)
        carried = ANSWER
    return ANSWER if _read_calls(parts, message) else carried


def _read_content(parts: Parts, content: object) -> int:
    if type(content) is str:
        parts.text.append(content)
        return ANSWER
    carried = NOTHING
    for part in content if type(content) is list else ():
        if type(part) is not dict:
            continue
        if type(text := part.get("text")) is str and text:
            parts.text.append(text)
            carried = ANSWER
        elif thinking := _thinking(part):
            parts.reasoning.append(thinking)
            carried = max(carried, REASONING)
    return carried


def _thinking(part: dict[str, Any]) -> str:
    thinking = part.get("thinking")
    if type(thinking) is str:
        return thinking
    pieces = thinking if type(thinking) is list else []
    texts = [piece.get("text") for piece in pieces if type(piece) is dict]
    return "".join(text for text in texts if type(text) is str)


def _read_calls(parts: Parts, message: dict[str, Any]) -> bool:
    carried = False
    calls = message.get("tool_calls")
    if calls and type(calls) is list:
        for call in calls:
            carried = parts.tool_calls().add(call) or carried
    if function := message.get("function_call"):
        carried = parts.tool_calls().add({"function": function}) or carried
    return carried


def add_token_ids(parts: Parts, ids: object) -> None:
    """Token ids as far as they are numbers of a vocabulary."""
    if type(ids) is list:
        parts.token_ids.extend(i for i in ids if type(i) is int and 0 <= i < _MOST_TOKEN_ID)
