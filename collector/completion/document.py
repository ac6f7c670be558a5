"""Read an answer that came as one JSON document."""

from __future__ import annotations

from typing import Any

from collector.completion.answer import Answer
from collector.completion.dialects import Dialect
from collector.completion.ending import BEYOND, Ended, Ending, cut_short, ending_of, outcome_of
from collector.completion.faults import fault_of
from collector.completion.model import Fault
from collector.completion.reading import Reading
from collector.json_text import TooMuch, Unreadable, is_text, loads


def read_document(dialect: Dialect, answer: Answer, reading: Reading) -> Ended:
    """Fill `reading` from the body; how the answer ended, and why it is not complete."""
    cut = cut_short(ending_of(answer, reading, unseen=BEYOND if answer.gap_bytes else ""))
    if not answer.body:
        return cut or ("no_tokens", Fault(None, "the body is empty"))
    reading.damaged += not is_text(answer.body)
    try:
        document = _object_of(answer)
        if _is_of(dialect, reading, document):
            return outcome_of(_read_whole(dialect, answer, reading, document))
    except TooMuch as error:
        reading.stop(str(error))
        return cut or ("truncated_capture", Fault("capture", str(error)))
    except Unreadable as error:
        reading.unreadable += 1
        return cut or ("not_a_completion", Fault("json", str(error)))
    reading.unreadable += 1
    return "not_a_completion", Fault("shape", f"the document is not of {dialect.name}")


def _object_of(answer: Answer) -> dict[str, Any]:
    """The body's JSON object.

    Raises:
        Unreadable: it is none.
    """
    if answer.gap_bytes:
        raise Unreadable("the body has a gap")
    try:
        document = loads(answer.body)
    except TooMuch:
        raise
    except Unreadable as error:
        raise Unreadable(f"the body is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise Unreadable("the body is no JSON object")
    return document


def _is_of(dialect: Dialect, reading: Reading, document: dict[str, Any]) -> bool:
    reading.fault = fault_of(document)
    return dialect.read_document(reading, document) or reading.fault is not None


def _read_whole(
    dialect: Dialect, answer: Answer, reading: Reading, document: dict[str, Any]
) -> Ending:
    reading.identify(document)
    if dialect.usage_on_top:
        reading.count_usage(document.get("usage"))
    reading.terminal = True  # a document ends with its own last brace
    return ending_of(answer, reading)
