"""The measures of one answer, by the formulas of analysis/metrics.toml. Pure.

Quantiles of an answer's gaps use numpy's default ("linear") method: h = (n - 1) p, and between
the two neighbours of h on the sorted gaps a straight line.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from itertools import pairwise

from collector.completion import Completion, Timeline
from collector.completion.server_timings import server_timings

_NS_PER_MS = 1e6
_AT_LENGTH = ("length", "max_tokens", "max_output_tokens")
_UNKNOWABLE_TRANSPORTS = ("client_disconnected", "cut_by_drain", "deadline_short")
_UNKNOWABLE_OUTCOMES = ("client_disconnected", "truncated_capture")


@dataclass(frozen=True, slots=True)
class Measures:
    """Milliseconds, tokens a second, or shares; null where a metric is undefined."""

    ttft_any_ms: float | None
    ttft_content_ms: float | None
    ttft_answer_ms: float | None
    e2e_ms: float | None
    decode_ms: float | None
    tpot_ms: float | None
    itl_mean_ms: float | None
    itl_p50_ms: float | None
    itl_p95_ms: float | None
    itl_p99_ms: float | None
    itl_max_ms: float | None
    tokens_per_s: float | None
    events_per_read: float | None
    """Data events by distinct reads that completed one: above 1, something buffers."""
    server_queue_ms: float | None
    server_prefill_ms: float | None
    server_ttft_ms: float | None
    server_tpot_ms: float | None


def measure(completion: Completion, last_byte_ns: int | None) -> Measures:
    """Every measure of one answer; `last_byte_ns`: when its last byte had arrived.

    An answer ended by itself if its transport says so, or if its own terminal event was seen
    before whoever broke the connection did.
    """
    timeline = completion.timeline
    ended = "complete" in (completion.transport, completion.outcome)
    decode_ns = _decode_ns(timeline)
    tokens = completion.tokens.count or 0
    gaps = sorted(b - a for a, b in pairwise(timeline.token_ns)) if timeline.whole else []
    return Measures(
        ttft_any_ms=_first_ms(timeline.data_ns),
        ttft_content_ms=_first_ms(timeline.token_ns),
        ttft_answer_ms=_ms(timeline.answer_ns),
        e2e_ms=_ms(last_byte_ns) if ended else None,
        decode_ms=_ms(decode_ns),
        tpot_ms=_per_token_ms(decode_ns, tokens, 1),
        itl_mean_ms=_per_token_ms(decode_ns, tokens, timeline.first_tokens),
        itl_p50_ms=quantile_ms(gaps, 0.50),
        itl_p95_ms=quantile_ms(gaps, 0.95),
        itl_p99_ms=quantile_ms(gaps, 0.99),
        itl_max_ms=gaps[-1] / _NS_PER_MS if gaps else None,
        tokens_per_s=(tokens - 1) / (decode_ns / 1e9) if decode_ns and tokens > 1 else None,
        events_per_read=len(timeline.data_ns) / timeline.reads if timeline.reads else None,
        **asdict(server_timings(completion.server)),
    )


def failure_of(completion: Completion) -> int | None:
    """0 for a complete answer, 1 for any other, null where nobody can say.

    Nobody can where the client left, where our own drain, deadline or capture's bound hides the
    end, and for an answer on a path of which we read no dialect. What the engine itself said, an
    error status or an in-band error, counts whoever left afterwards.
    """
    if completion.outcome == "complete":
        return 0
    if completion.outcome in ("http_error", "in_band_error"):
        return 1
    if completion.transport in _UNKNOWABLE_TRANSPORTS:
        return None
    if completion.outcome in _UNKNOWABLE_OUTCOMES or not completion.dialect:
        return None
    return 1


def in_band_error_of(completion: Completion) -> int | None:
    """1 for an error inside of a stream that began well, null where nobody can say."""
    failure = failure_of(completion)
    return None if failure is None else int(completion.outcome == "in_band_error")


def cut_at_length_of(completion: Completion) -> int | None:
    """1 if the length limit cut the answer; null where it failed or gave no finish reason."""
    reason = finish_reason_of(completion)
    return None if failure_of(completion) == 1 or not reason else int(reason in _AT_LENGTH)


def finish_reason_of(completion: Completion) -> str:
    """One word for a lone choice; the distinct words of several, sorted and joined."""
    reasons = {choice.finish_reason for choice in completion.choices if choice.finish_reason}
    return ",".join(sorted(reasons))


def quantile_ms(sorted_ns: list[int], p: float) -> float | None:
    """The p-quantile of sorted gaps, linear between neighbours; null where there are none."""
    if not sorted_ns:
        return None
    at = (len(sorted_ns) - 1) * p
    low = math.floor(at)
    high = min(low + 1, len(sorted_ns) - 1)
    return (sorted_ns[low] + (sorted_ns[high] - sorted_ns[low]) * (at - low)) / _NS_PER_MS


def _decode_ns(timeline: Timeline) -> int | None:
    times = timeline.token_ns
    return times[-1] - times[0] if len(times) > 1 else None


def _per_token_ms(decode_ns: int | None, tokens: int, first: int) -> float | None:
    if decode_ns is None or tokens < 2 or tokens <= first:
        return None
    return decode_ns / (tokens - first) / _NS_PER_MS


def _first_ms(times_ns: tuple[int, ...]) -> float | None:
    return times_ns[0] / _NS_PER_MS if times_ns else None


def _ms(elapsed_ns: int | None) -> float | None:
    return None if elapsed_ns is None else elapsed_ns / _NS_PER_MS
