"""Rows of the store's tables, column by column as in collector/migrations/*.sql. Pure."""

from __future__ import annotations

import math
from typing import Any

import orjson

from collector.comparable import comparable, text_hash
from collector.completion import Choice, Completion
from collector.measures import Measures, failure_of, finish_reason_of
from shadow.exchange import Accounting, Exchange

DECODER_VERSION = 5
"""Raised when reading changes: a better decoder's row replaces an older one's."""

Row = dict[str, Any]
"""Column → value, in the table's order; times are integers of ns since 1970, UTC."""

READ = (
    "outcome",
    "error",
    "dialect",
    "model_echoed",
    "fingerprint",
    "finish_reason",
    "text_hash",
    "text_chars",
    "text_key",
    "prompt_tokens",
    "cached_tokens",
    "output_tokens",
    "token_source",
    "events",
    "events_per_read",
    "ttft_any_ms",
    "ttft_content_ms",
    "ttft_answer_ms",
    "e2e_ms",
    "decode_ms",
    "tpot_ms",
    "itl_mean_ms",
    "itl_p50_ms",
    "itl_p95_ms",
    "itl_p99_ms",
    "itl_max_ms",
    "tokens_per_s",
    "failure",
    "version",
    "server_queue_ms",
    "server_prefill_ms",
    "server_ttft_ms",
    "server_tpot_ms",
    "unreadable_events",
    "damaged_events",
)
"""The columns of `exchanges` that are read off an answer."""

_MOST_32 = 2**32 - 1
_SAID_IF_ANY = (
    "reasoning",
    "refusal",
    "tool_calls",
    "finish_reason",
    "stop_reason",
    "logprobs",
    "token_ids",
)
_MOST_PATH = 2000
_MOST_CHANGES = 100
_MOST_WORD = 200  # characters of a word that an engine chose and a LowCardinality column keeps


def exchange_row(exchange: Exchange, completion: Completion, measures: Measures) -> Row:
    """The row of `exchanges`."""
    facts = exchange.request_facts
    text = comparable(completion)
    usage = completion.usage
    return {
        "experiment": exchange.experiment,
        "config_hash": exchange.config_hash,
        "arrived_at": exchange.arrived_at,
        "started_at": exchange.started_at,
        "pair_id": exchange.pair_id,
        "arm": exchange.arm,
        "role": exchange.role,
        "replica": exchange.replica,
        "probe": exchange.probe,
        "attach": exchange.attach,
        "worker": exchange.worker,
        "boot_id": exchange.boot_id,
        "sequence": exchange.sequence,
        "method": _word(exchange.method),
        "path": exchange.path[:_MOST_PATH],
        "status": exchange.status,
        "transport": exchange.transport,
        "outcome": completion.outcome,
        "error": _error(exchange, completion),
        "model": _word(facts.model),
        "streamed": facts.streamed,
        "max_tokens": _count(facts.max_tokens),
        "temperature": _finite(facts.temperature),
        "request_bytes": facts.bytes,
        "turns": _count(facts.turns),
        "tools": _count(facts.tools),
        "conversation": _word(facts.conversation),
        "request_changes": [_word(each) for each in exchange.request_changes[:_MOST_CHANGES]],
        "subject": exchange.subject or "",
        "weight": exchange.weight,
        "in_flight": exchange.in_flight,
        "dialect": completion.dialect,
        "model_echoed": _word(completion.model),
        "fingerprint": _word(completion.fingerprint),
        "finish_reason": _word(finish_reason_of(completion)),
        "text_hash": None if text is None else text_hash(text),
        "text_chars": None if text is None else len(text),
        "prompt_tokens": usage.prompt_tokens if usage else None,
        "cached_tokens": usage.cached_tokens if usage else None,
        "output_tokens": completion.tokens.count,
        "token_source": completion.tokens.source,
        "captured_bytes": exchange.captured_bytes,
        "truncated_bytes": exchange.truncated_bytes,
        "events": len(completion.timeline.data_ns),
        "events_per_read": measures.events_per_read,
        "ttft_any_ms": measures.ttft_any_ms,
        "ttft_content_ms": measures.ttft_content_ms,
        "ttft_answer_ms": measures.ttft_answer_ms,
        "e2e_ms": measures.e2e_ms,
        "decode_ms": measures.decode_ms,
        "tpot_ms": measures.tpot_ms,
        "itl_mean_ms": measures.itl_mean_ms,
        "itl_p50_ms": measures.itl_p50_ms,
        "itl_p95_ms": measures.itl_p95_ms,
        "itl_p99_ms": measures.itl_p99_ms,
        "itl_max_ms": measures.itl_max_ms,
        "tokens_per_s": measures.tokens_per_s,
        "client_wait_ms": exchange.client_wait_ns / 1e6,
        "failure": failure_of(completion),
        "version": DECODER_VERSION,
        "server_queue_ms": measures.server_queue_ms,
        "server_prefill_ms": measures.server_prefill_ms,
        "server_ttft_ms": measures.server_ttft_ms,
        "server_tpot_ms": measures.server_tpot_ms,
        "unreadable_events": completion.unreadable_events,
        "damaged_events": completion.damaged_events,
        "mirroring": _word(exchange.mirroring),
        "text_key": "",
        "redactions": {_word(rule): n for rule, n in exchange.redactions.items()},
    }


def body_row(exchange: Exchange, completion: Completion, *, keep_raw: bool) -> Row:
    """The row of `bodies`; `raw` is empty unless the raw bytes are to be kept."""
    return {
        "experiment": exchange.experiment,
        "arrived_at": exchange.arrived_at,
        "pair_id": exchange.pair_id,
        "arm": exchange.arm,
        "replica": exchange.replica,
        "probe": exchange.probe,
        "subject": exchange.subject or "",
        "request": exchange.request or b"",
        "answer": _json([_choice(choice) for choice in completion.choices]),
        "raw": exchange.body if keep_raw else b"",
        "headers": _json(exchange.headers),
        "marks": exchange.marks,
        "version": DECODER_VERSION,
    }


def accounting_rows(record: Accounting) -> list[Row]:
    """The rows of `accounting`: one a counter."""
    return [
        {
            "experiment": record.experiment,
            "config_hash": record.config_hash,
            "worker": record.worker,
            "boot_id": record.boot_id,
            "arm": count.arm,
            "counter": count.counter,
            "reason": count.reason,
            "value": count.value,
            "at": record.at,
            "sequence": record.sequence,
        }
        for count in record.counts
    ]


def worker_row(record: Accounting) -> Row:
    """The row of `workers`."""
    return {
        "experiment": record.experiment,
        "config_hash": record.config_hash,
        "worker": record.worker,
        "boot_id": record.boot_id,
        "at": record.at,
        "high_sequence": record.high_sequence,
        "dropped_sequences": record.dropped_sequences,
        "low_water": record.low_water,
        "final": int(record.final),
        "sequence": record.sequence,
    }


def _error(exchange: Exchange, completion: Completion) -> str:
    fault = completion.fault
    if completion.outcome == "complete" or fault is None:
        return exchange.error or ""
    return f"{fault.type}: {fault.message}" if fault.type else fault.message


def _choice(choice: Choice) -> Row:
    """What there is to say of a choice; what is empty is left out, but for index and text."""
    said: Row = {"index": choice.index, "text": choice.text}
    for name in _SAID_IF_ANY:
        if (value := getattr(choice, name)) not in (None, "", ()):
            said[name] = value
    return said


def _json(document: object) -> str:
    return orjson.dumps(document).decode()


def _word(word: str | None) -> str:
    return (word or "")[:_MOST_WORD]


def _count(value: int | None) -> int | None:
    """A number that a client chose, where it fits its column: -1 and 10**30 are no counts."""
    return value if value is not None and 0 <= value <= _MOST_32 else None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
