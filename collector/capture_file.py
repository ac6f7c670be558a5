"""`shadow decode`: one captured exchange in a file, read as the collector reads it.

Both formats, the file's and that of what comes out, stand in docs/decode.md.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from collector.completion import Answer, Choice, Completion, read
from collector.measures import cut_at_length_of, failure_of, in_band_error_of, measure
from collector.tokenizer import CountTokens


class NotACapture(ValueError):
    """The file is no capture; one line says why."""


def decode_file(
    path: Path, *, details: bool = False, count_tokens: CountTokens | None = None
) -> dict[str, Any]:
    """What the answer in the file was, as one JSON object.

    `details` adds a key of that name: what was read beyond the documented object.

    Raises:
        NotACapture: it cannot be read, is no JSON, or misses what a capture has.
    """
    try:
        capture = json.loads(path.read_bytes())
    except OSError as error:
        raise NotACapture(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise NotACapture(f"{path}: not JSON: {error}") from None
    try:
        answer = answer_of(capture)
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise NotACapture(f"{path}: not a capture: {error}") from None
    return decoded(replace(answer, count_tokens=count_tokens), details=details)


def answer_of(capture: Any) -> Answer:
    """The answer that a capture holds; raises TypeError or ValueError, with the key, for others."""
    response = _at(capture, "response")
    if type(status := _at(capture, "response.status")) is not int and status is not None:
        raise TypeError("response.status is no number")
    whole = bool(_at(capture, "response.framing_complete"))
    return Answer(
        path=str(_at(capture, "request.path")),
        status=status,
        headers=[(str(name), str(value)) for name, value in _pairs(capture, "response.headers")],
        body=_body(_at(capture, "response.body"), response.get("body_encoding", "utf-8")),
        marks=_marks(capture),
        transport=_transport(response),
        error=None if whole else str(response.get("ended_by") or ""),
    )


def _marks(capture: Any) -> list[tuple[int, int]]:
    found = _pairs(capture, "response.marks_ms_end")
    if any(isinstance(part, (str, bool)) or part is None for pair in found for part in pair):
        raise TypeError("response.marks_ms_end is no list of pairs of numbers")
    return [(round(ms * 1e6), int(end)) for ms, end in found]


def _at(capture: Any, path: str) -> Any:
    """What stands under a dotted path."""
    node, above = capture, ""
    for step in path.split("."):
        if not isinstance(node, dict):
            raise TypeError(f"{above or 'the whole'} is no group of keys and values")
        above = f"{above}.{step}".lstrip(".")
        if step not in node:
            raise ValueError(f"{above} is missing")
        node = node[step]
    return node


def _pairs(capture: Any, path: str) -> list[Any]:
    """A list of pairs."""
    found = _at(capture, path)
    if not isinstance(found, list) or any(
        not isinstance(pair, list) or len(pair) != 2 for pair in found
    ):
        raise TypeError(f"{path} is no list of pairs")
    return found


def decoded(answer: Answer, *, details: bool = False) -> dict[str, Any]:
    """The documented object: null where a thing is not there or a metric is undefined."""
    completion = read(answer)
    measures = measure(completion, answer.marks[-1][0] if answer.marks else None)
    document = {
        "dialect": completion.dialect or None,
        "streamed": completion.streamed,
        "status": completion.status,
        "transport": completion.transport,
        "outcome": completion.outcome,
        "error": asdict(completion.fault) if completion.fault else None,
        "model": completion.model,
        "choices": [_choice(choice) for choice in completion.choices],
        "usage": asdict(completion.usage) if completion.usage else None,
        "tokens": {"count": completion.tokens.count, "source": completion.tokens.source or None},
        "events": len(completion.timeline.data_ns),
        **asdict(measures),
        "output_tokens": completion.tokens.count,
        "client_wait_ms": None,
        "failure": failure_of(completion),
        "in_band_error": in_band_error_of(completion),
        "cut_at_length": cut_at_length_of(completion),
        "mismatch": None,
    }
    return document | {"details": _details(completion)} if details else document


def _details(completion: Completion) -> dict[str, Any]:
    return {
        "fingerprint": completion.fingerprint,
        "unreadable_events": completion.unreadable_events,
        "damaged_events": completion.damaged_events,
        "cumulative": completion.cumulative,
        "server": completion.server,
        "choices": [
            {
                "index": choice.index,
                "logprobs": [asdict(each) for each in choice.logprobs] or None,
                "token_ids": list(choice.token_ids) or None,
            }
            for choice in completion.choices
        ],
    }


def _body(body: object, encoding: str) -> bytes:
    if not isinstance(body, str):
        raise TypeError("response.body is no text")
    if encoding == "utf-8":
        return body.encode()
    if encoding != "base64":
        raise ValueError(f"response.body_encoding {encoding!r} is neither utf-8 nor base64")
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error as error:
        raise ValueError(f"response.body: {error}") from None


def _transport(response: dict[str, Any]) -> str:
    if response["framing_complete"]:
        return "complete"
    ended_by = str(response.get("ended_by") or "").lower()
    if "client" in ended_by:
        return "client_disconnected"
    return "reset" if "reset" in ended_by else "truncated"


def _choice(choice: Choice) -> dict[str, Any]:
    return {
        "text": choice.text,
        "reasoning": choice.reasoning or None,
        "refusal": choice.refusal or None,
        "tool_calls": [asdict(call) for call in choice.tool_calls],
        "finish_reason": choice.finish_reason,
        "stop_reason": choice.stop_reason,
    }
