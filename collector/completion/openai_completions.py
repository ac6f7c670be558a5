"""OpenAI completions, streamed and whole: the text stands in the choice itself."""

from __future__ import annotations

from typing import Any

from collector.completion.openai_chat import read_choice
from collector.completion.reading import ANSWER, NOTHING, Reading


def read_event(reading: Reading, chunk: dict[str, Any]) -> int:
    """Take one chunk; says what it carried."""
    carried = NOTHING
    choices = chunk.get("choices")
    for choice in choices if type(choices) is list else ():
        if type(choice) is not dict:
            continue
        parts = reading.choice(choice.get("index"))
        text = choice.get("text")
        if text and type(text) is str:
            parts.text.append(text)
            carried = ANSWER
        read_choice(parts, choice)
    return carried


def read_document(reading: Reading, document: dict[str, Any]) -> bool:
    """Take a whole answer; False where it is no completion."""
    if type(document.get("choices")) is not list:
        return False
    read_event(reading, document)
    return True
