"""What an engine says of its own times: each engine's names for the same four things. Pure.

vLLM: `metrics` of the usage chunk or document (--enable-per-request-metrics). llama.cpp: `timings`.
Dynamo: `nvext.timing` (extra_fields ["timing"]). TGI: header fields of a whole answer. Their
definitions differ: a figure is comparable between builds of one engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from collector.completion.answer import Answer
from collector.json_text import clean, finite

_HEADERS = ("x-queue-time", "x-time-per-token")
_QUEUE = ("queue_time_ms", "prefill_wait_time_ms", "x-queue-time")
_PREFILL = ("prefill_time_ms", "prompt_ms")
_TTFT = ("time_to_first_token_ms", "ttft_ms")
_TPOT = ("mean_itl_ms", "itl_ms", "predicted_per_token_ms", "x-time-per-token")


@dataclass(frozen=True, slots=True)
class ServerTimings:
    """Milliseconds by the engine's own clock; null where it said none."""

    server_queue_ms: float | None = None
    server_prefill_ms: float | None = None
    server_ttft_ms: float | None = None
    server_tpot_ms: float | None = None


def server_timings(said: Mapping[str, float]) -> ServerTimings:
    """The figures that an engine reported under its own names, under ours."""
    return ServerTimings(
        server_queue_ms=_first(said, _QUEUE),
        server_prefill_ms=_first(said, _PREFILL),
        server_ttft_ms=_first(said, _TTFT),
        server_tpot_ms=_first(said, _TPOT),
    )


def said_in_headers(answer: Answer) -> dict[str, float]:
    """TGI's header fields, in whole milliseconds."""
    found = {name: _number(answer.header(name)) for name in _HEADERS}
    return {name: value for name, value in found.items() if value is not None}


def said_in(document: Mapping[str, Any]) -> dict[str, float]:
    """Every finite figure of the objects in which engines report, as they name it."""
    nvext = document.get("nvext")
    timing = nvext.get("timing") if isinstance(nvext, dict) else None
    found: dict[str, float] = {}
    for timings in (document.get("timings"), document.get("metrics"), timing):
        if isinstance(timings, dict):
            for name, value in timings.items():
                if (number := finite(value)) is not None:
                    found[clean(name)] = number
    return found


def _first(said: Mapping[str, float], names: tuple[str, ...]) -> float | None:
    return next((said[name] for name in names if said.get(name, -1.0) >= 0), None)


def _number(text: str) -> float | None:
    try:
        return finite(float(text))
    except ValueError:
        return None
