"""From an answer to bytes: the events of a stream, or one JSON document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import orjson

from shadow.engine_sim.answer import WORDS, Answer
from shadow.engine_sim.dialect import Dialect

Kind = Literal["chat", "text"]
Group = list[bytes]
"""What leaves at one moment: one element a write."""

DONE = b"data: [DONE]\n\n"
_WORD_JSON = {word: orjson.dumps(word) for word in WORDS}
_HOLE = '"\\u0000"'
_TEXT_ENVELOPE = (
    '{"id":%(id)s,"object":"text_completion","created":%(created)d,"model":%(model)s,'
    '"choices":[%(choice)s]%(rest)s}'
)
_TEXT_CHOICE = '{"index":0,"text":%(text)s,"logprobs":null,"finish_reason":%(finish)s}'


@dataclass(frozen=True, slots=True)
class Envelope:
    """What is the same in every event of one answer."""

    kind: Kind
    dialect: Dialect
    id: str
    created: int
    """Unix time, seconds."""
    model: str
    fingerprint: str

    def event(self, choice: str, rest: str = "") -> bytes:
        """One event around a choice's JSON; `rest` follows the choices."""
        template = self.dialect.envelope if self.kind == "chat" else _TEXT_ENVELOPE
        names = {"id": _json(self.id), "created": self.created, "model": _json(self.model)}
        document = template % {**names, "choice": choice, "rest": rest}
        return f"data: {document}{self.dialect.event_end}".encode()


def stream(answer: Answer, envelope: Envelope, *, usage: bool) -> list[Group]:
    """What to write at each token's moment; the first carries the role, the last the end.

    An answer without tokens is one group. Joined, the groups are the whole body.
    """
    tokens = [
        *_tokens(answer.reasoning, envelope, reasoning=True),
        *_tokens(answer.tokens, envelope),
    ]
    last_token, ending = _ending(answer, envelope, usage=usage)
    if last_token:
        tokens[-1] = last_token
    groups: list[Group] = [[token] for token in tokens] or [[]]
    role = (
        [envelope.event(_choice(envelope, envelope.dialect.role))]
        if envelope.kind == "chat"
        else []
    )
    joins = envelope.dialect.joins_writes
    groups[0] = _joined([*role, *groups[0]]) if joins else [*role, *groups[0]]
    groups[-1] += _joined(ending) if joins else ending
    return groups


def document(answer: Answer, envelope: Envelope) -> bytes:
    """The whole answer as one JSON document."""
    text = "".join(answer.tokens)
    choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": answer.finish}
    if envelope.kind == "chat":
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if answer.reasoning:
            message[envelope.dialect.reasoning_field] = "".join(answer.reasoning)
        choice["message"] = message
    else:
        choice["text"] = text
    return orjson.dumps(
        {
            "id": envelope.id,
            "object": "chat.completion" if envelope.kind == "chat" else "text_completion",
            "created": envelope.created,
            "model": envelope.model,
            "system_fingerprint": envelope.fingerprint,
            "choices": [choice],
            "usage": _usage(answer),
        }
    )


def error(dialect: Dialect, status: int, type_: str = "", message: str = "") -> bytes:
    """The JSON of an error as the dialect spells it; without words, a simulated failure's."""
    type_ = type_ or ("RateLimitError" if status == 429 else "InternalServerError")
    names = {"message": _json(message or "simulated failure"), "type": _json(type_), "code": status}
    return (dialect.error % names).encode()


def error_group(dialect: Dialect, status: int) -> Group:
    """The events of a failure within a stream."""
    event = b"data: " + error(dialect, status) + dialect.event_end.encode()
    return [event, DONE] if dialect.done_after_error else [event]


def _tokens(words: tuple[str, ...], envelope: Envelope, *, reasoning: bool = False) -> list[bytes]:
    """One event a token: the text around it is the same in all, so it is made once."""
    if not words:
        return []
    template = envelope.dialect.reasoning if reasoning else envelope.dialect.content
    before, _, after = envelope.event(_token_choice(envelope, template)).partition(_HOLE.encode())
    return [before + _WORD_JSON[word] + after for word in words]


def _token_choice(
    envelope: Envelope, template: str, text: str = _HOLE, finish: str = "null"
) -> str:
    if envelope.kind == "text":
        return _TEXT_CHOICE % {"text": text, "finish": finish}
    return _choice(envelope, template % {"text": text}, finish)


def _choice(envelope: Envelope, delta: str, finish: str = "null") -> str:
    template = envelope.dialect.open if finish == "null" else envelope.dialect.last
    return template % {"delta": delta, "finish": finish}


def _ending(answer: Answer, envelope: Envelope, *, usage: bool) -> tuple[bytes | None, Group]:
    """(what replaces the last token's event or null, the events after it)."""
    finish, dialect = _json(answer.finish), envelope.dialect
    after: Group = [envelope.event("", _rest(answer, envelope)), DONE] if usage else [DONE]
    fingerprint = f',"system_fingerprint":{_json(envelope.fingerprint)}'
    if dialect.finish_delta is None and answer.tokens:
        word = _WORD_JSON[answer.tokens[-1]].decode()
        choice = _token_choice(envelope, dialect.content, word, finish)
        return envelope.event(choice, fingerprint), after
    if envelope.kind == "text":
        choice = _TEXT_CHOICE % {"text": '""', "finish": finish}
    else:
        choice = _choice(envelope, dialect.finish_delta or "{}", finish)
    return None, [envelope.event(choice, fingerprint), *after]


def _rest(answer: Answer, envelope: Envelope) -> str:
    usage = orjson.dumps(_usage(answer)).decode()
    return f',"usage":{usage},"system_fingerprint":{_json(envelope.fingerprint)}'


def _usage(answer: Answer) -> dict[str, int]:
    completion = len(answer.tokens) + len(answer.reasoning)
    return {
        "prompt_tokens": answer.prompt_tokens,
        "total_tokens": answer.prompt_tokens + completion,
        "completion_tokens": completion,
    }


def _joined(group: Group) -> Group:
    return [b"".join(group)]


def _json(text: str) -> str:
    return orjson.dumps(text).decode()
