"""With `capture: measures`: from a record with its text to one with figures only. Pure.

What an answer said becomes the columns of `exchanges` that are read off it. Words that an engine
chose are kept where they are of a known set; of a text there is left how long it was, and an HMAC
under a secret that nobody stores, so that it can be said to equal its pair's, and nothing else.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from collector.comparable import comparable
from collector.completion import Completion
from collector.decode import NO_TOKENIZERS, read_answer
from collector.rows import READ, Row, exchange_row
from collector.tokenizer import CountTokens
from shadow.exchange import TRANSPORTS, Exchange, decode, encode

OTHER: Final = "other"
"""In place of a word that is of no known set."""
_FINISH: Final = frozenset(
    (
        "stop",
        "length",
        "tool_calls",
        "function_call",
        "content_filter",
        "end_turn",
        "max_tokens",
        "stop_sequence",
        "tool_use",
        "pause_turn",
        "refusal",
        "eos_token",
        "max_output_tokens",
        "model_context_window_exceeded",
        "error",
        "abort",
        "cancelled",
        "completed",
        "incomplete",
        "failed",
    )
)
_FAULTS: Final = frozenset(
    (
        "capture",
        "content_coding",
        "content_type",
        "decoder",
        "json",
        "path",
        "shape",
        "sse",
        "error",
        "abort",
        "timeout_error",
        "invalid_request_error",
        "authentication_error",
        "permission_error",
        "permission_denied_error",
        "not_found_error",
        "request_too_large",
        "rate_limit_error",
        "rate_limit_exceeded",
        "insufficient_quota",
        "api_error",
        "server_error",
        "internal_server_error",
        "InternalServerError",
        "BadRequestError",
        "NotFoundError",
        "NotImplementedError",
        "overloaded_error",
        "overloaded",
        "service_unavailable",
        "ServiceUnavailableError",
        "unavailable_error",
        "exceed_context_size_error",
        "billing_error",
        "context_length_exceeded",
        "content_policy_violation",
        "model_not_found",
    )
) | frozenset(TRANSPORTS)
_NAME: Final = re.compile(r"[A-Za-z0-9_.:/+*-]{1,200}")


@dataclass(frozen=True, slots=True)
class Secret:
    """A process' own; it lives in its memory and dies with it."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    """Says of two hashes whether they can be compared; drawn apart from the key."""

    def hash_of(self, pair_id: str, text: str) -> int:
        """64 bits; the same for the same text in the same pair."""
        said = hmac.new(self.key, f"{pair_id}\0{text}".encode(), hashlib.sha256).digest()
        return int.from_bytes(said[:8], "big")


def measured(
    value: bytes, secret: Secret, count_tokens: Mapping[str, CountTokens] = NO_TOKENIZERS
) -> bytes:
    """A record's wire form, of an exchange without anything that was said in it.

    Raises:
        MalformedRecord: it is no record, and must not be passed on.
    """
    record = decode(value)
    if not isinstance(record, Exchange):
        return value
    completion, measures = read_answer(record, count_tokens.get(record.arm))
    row = exchange_row(record, completion, measures)
    facts = record.request_facts
    gone: dict[str, Any] = {"request": None, "body": b"", "headers": [], "request_headers": []}
    return encode(
        record.model_copy(
            update={
                **gone,
                "marks": [],
                "error": None,
                "request_facts": facts.model_copy(update={"model": _name(facts.model)}),
                "measures": _figures(record, completion, row, secret),
            }
        )
    )


def _figures(
    exchange: Exchange, completion: Completion, row: Row, secret: Secret
) -> dict[str, Any]:
    text = comparable(completion)
    words = {
        "error": _fault(completion),
        "model_echoed": _name(row["model_echoed"]),
        "fingerprint": _name(row["fingerprint"]),
        "finish_reason": ",".join(
            sorted({_known(word, _FINISH) for word in row["finish_reason"].split(",") if word})
        ),
        "text_hash": None if text is None else secret.hash_of(exchange.pair_id, text),
        "text_key": "" if text is None else secret.name,
    }
    return {name: row[name] for name in READ} | words


def _fault(completion: Completion) -> str:
    """What kind of error it was, in a word, or by its status."""
    fault = completion.fault
    if completion.outcome == "complete" or fault is None:
        return ""
    if fault.type in _FAULTS:
        return fault.type
    return f"HTTP {completion.status}" if completion.outcome == "http_error" else OTHER


def _known(word: str, words: frozenset[str]) -> str:
    return word if word in words else OTHER


def _name(word: str | None) -> str | None:
    return word if not word or _NAME.fullmatch(word) else OTHER
