"""Answers for the readers' tests: events, marks, and a reading of them in one call."""

from __future__ import annotations

import json

from collector.completion import Answer, read

CHAT = "/v1/chat/completions"
SSE = (("Content-Type", "text/event-stream; charset=utf-8"),)
JSON = (("content-type", "application/json"),)
DONE = b"data: [DONE]\n\n"


def event(document, name=None, end="\n\n") -> bytes:
    """One event; a str goes as it is."""
    data = document if isinstance(document, str) else json.dumps(document)
    return (f"event: {name}\n" if name else "").encode() + f"data: {data}{end}".encode()


def delta(index=0, finish=None, **fields) -> dict:
    """A chat chunk of one choice."""
    choice = {"index": index, "delta": fields, "finish_reason": finish}
    return {"object": "chat.completion.chunk", "model": "m", "choices": [choice]}


def text(content, index=0) -> dict:
    return delta(index, content=content)


def finish(reason="stop", index=0) -> dict:
    return delta(index, reason)


def usage(completion=3, choices=(), **more) -> dict:
    counts = {"prompt_tokens": 10, "completion_tokens": completion, "total_tokens": 10 + completion}
    return {"choices": list(choices), "usage": counts | more}


def marks_of(pieces, ms=10):
    """A mark a piece, `ms` apart: (elapsed_ns, end)."""
    marks, end = [], 0
    for number, piece in enumerate(pieces, 1):
        end += len(piece)
        marks.append((number * ms * 1_000_000, end))
    return marks


def streamed(*pieces, path=CHAT, transport="complete", headers=SSE, status=200, marks=None, **more):
    """Read a stream of pieces (dicts become events), one read a piece."""
    raw = [event(piece) if isinstance(piece, dict) else piece for piece in pieces]
    body = b"".join(raw)
    marks = marks_of(raw) if marks is None else marks
    return read(Answer(path, status, headers, body, marks, transport, **more))


def whole(document, path=CHAT, transport="complete", headers=JSON, status=200, **more):
    """Read a whole answer that came in one read."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return read(Answer(path, status, headers, body, [(5_000_000, len(body))], transport, **more))
