"""What the tests of redaction share: rules, secrets, answers as engines stream them."""

from __future__ import annotations

import json
from collections import Counter

from shadow.config.redaction import Redaction
from shadow.redaction.redactor import Redactor
from shadow.redaction.rules import rules_of

SALT = "a salt of the tests"
JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r"
SECRETS = {
    "email": "john.doe@example.com",
    "phone": "+49 30 1234567",
    "card": "4111 1111 1111 1111",
    "iban": "DE89370400440532013000",
    "key": "sk-proj-abcdEFGH1234ijklMNOP",
    "jwt": JWT,
    "ip": "10.20.30.40",
    "ticket": "TICKET-4711",
}


def redactor(**said) -> Redactor:
    patterns = [{"name": "ticket", "regex": r"TICKET-\d+"}]
    return Redactor(rules_of(Redaction(**{"salt": SALT, "patterns": patterns} | said)))


def redacted(body: bytes, kind: str = "application/json", tail: int = 0, **said):
    """(new body, counts)."""
    counts: Counter[str] = Counter()
    new = redactor(**said).body(body, kind, counts, tail)
    return new, counts


def chunk(delta: dict, index: int = 0, **more) -> dict:
    return {
        "id": "chatcmpl-0123456789abcdef",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "llama",
        "choices": [{"index": index, "delta": delta, "finish_reason": None}],
    } | more


def event(document: dict, ascii_only: bool = True) -> bytes:  # noqa: FBT001, FBT002
    return b"data: " + json.dumps(document, ensure_ascii=ascii_only).encode() + b"\n\n"


def stream(pieces: list[str], field: str = "content") -> bytes:
    return b"".join(event(chunk({field: piece})) for piece in pieces) + b"data: [DONE]\n\n"


def events_in(body: bytes) -> list[dict]:
    lines = [line[6:] for line in body.splitlines() if line.startswith(b"data: {")]
    return [json.loads(line) for line in lines]


def text_of(body: bytes, field: str = "content", index: int = 0) -> str:
    choices = [choice for each in events_in(body) for choice in each["choices"]]
    return "".join(c["delta"].get(field) or "" for c in choices if c["index"] == index)
