"""The measures are metrics.toml's formulas, and mean what each tool means by the same name."""

import tomllib
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from collecting.answers import DONE, SSE, delta, event, finish, streamed, text, usage, whole
from hypothesis import given
from hypothesis import strategies as st

from collector.completion import Answer, Choice, Completion, read
from collector.measures import (
    Measures,
    cut_at_length_of,
    failure_of,
    in_band_error_of,
    measure,
    quantile_ms,
)

ROOT = Path(__file__).parents[2]
MS = 1_000_000


def timed(*events, transport="complete"):
    """Read (ms, piece) pairs, each piece a read of its own; the answer and its measures."""
    raw = [(ms, event(piece) if isinstance(piece, dict) else piece) for ms, piece in events]
    body, marks = b"", []
    for ms, piece in raw:
        body += piece
        marks.append((ms * MS, len(body)))
    done = read(Answer("/v1/chat/completions", 200, SSE, body, marks, transport))
    return done, measure(done, marks[-1][0])


def worked(reasoning):
    """The research page's stream: reasoning, content, two events in one read, usage 8."""
    return [
        (200, delta(role="assistant", content="")), (500, delta(**{reasoning: "Hm"})), (520, delta(**{reasoning: "so"})),
        (1000, text("Hello")), (1100, event(text(" wor")) + event(text("ld"))), (1200, finish()), (1250, usage(8)), (1260, DONE),
    ]  # fmt: skip


def tools(events, reasoning):
    """Each tool's definitions, from the events alone."""
    flat = [
        (ms, choice["delta"])
        for ms, piece in [*events[:4], (1100, text(" wor")), (1100, text("ld"))]
        for choice in piece["choices"]
    ]
    token = [
        ms for ms, d in flat if d.get("content") or d.get("reasoning") or d.get("reasoning_content")
    ]
    content = [ms for ms, d in flat if d.get("content")]
    vllm = [ms for ms, d in flat if d.get("content") or d.get("reasoning")]
    tokens, usage_ms, end_ms = 8, 1250, 1260
    return {
        "AIPerf TTFT": token[0],
        "AIPerf TTFO": content[0],
        "AIPerf TTST": token[1] - token[0],
        "AIPerf latency": token[-1],
        "AIPerf ITL": (token[-1] - token[0]) / (tokens - 1),
        "vLLM TTFT": vllm[0],
        "vLLM TPOT": (vllm[-1] - vllm[0]) / (tokens - 1),
        "vLLM ITL": list(np.diff(vllm)),
        "SGLang TPOT": (end_ms - token[0]) / (tokens - 1),
        "SGLang latency": end_ms,
        "GenAI-Perf TTFT": content[0],
        "genai-bench TPOT": (usage_ms - token[0]) / (tokens - 1),
        "GuideLLM TPOT": token[-1] / tokens,
        "GuideLLM ITL": (token[-1] - token[0]) / (tokens - 1),
    }


def test_the_worked_stream_by_every_tool():
    """Six tools, TPOT between 14 and 138 ms for one answer: the page's table, reproduced."""
    got = tools(worked("reasoning_content"), "reasoning_content")
    assert {name: value for name, value in got.items() if not isinstance(value, list)} == pytest.approx(
        {
            "AIPerf TTFT": 500, "AIPerf TTFO": 1000, "AIPerf TTST": 20, "AIPerf latency": 1100, "AIPerf ITL": 600 / 7,
            "vLLM TTFT": 1000, "vLLM TPOT": 100 / 7, "SGLang TPOT": 760 / 7, "SGLang latency": 1260, "GenAI-Perf TTFT": 1000,
            "genai-bench TPOT": 750 / 7, "GuideLLM TPOT": 137.5, "GuideLLM ITL": 600 / 7,
        }
    )  # fmt: skip
    assert got["vLLM ITL"] == [100, 0]


@pytest.mark.parametrize("reasoning", ["reasoning", "reasoning_content"])
def test_our_measures_of_the_worked_stream(reasoning):
    """Ours do not depend on how reasoning is spelled, and equal the tools that `same_as` names."""
    _, ours = timed(*worked(reasoning))
    got = tools(worked(reasoning), reasoning)
    assert ours.ttft_any_ms == 200
    assert ours.ttft_content_ms == got["AIPerf TTFT"] == 500
    assert ours.ttft_answer_ms == got["AIPerf TTFO"] == 1000
    assert ours.e2e_ms == got["SGLang latency"] == 1260
    assert ours.decode_ms == got["AIPerf latency"] - got["AIPerf TTFT"] == 600
    assert ours.tpot_ms == pytest.approx(got["GuideLLM ITL"])
    assert ours.itl_mean_ms == pytest.approx(got["AIPerf ITL"])
    assert ours.itl_p50_ms == np.percentile([20, 480, 100, 0], 50)
    assert ours.itl_max_ms == 480
    assert ours.tokens_per_s == pytest.approx(7 / 0.6) == pytest.approx(1000 / ours.tpot_ms)
    assert ours.events_per_read == 9 / 8
    if reasoning == "reasoning":
        assert ours.tpot_ms == pytest.approx(got["vLLM TPOT"])


def test_names_are_the_list_s():
    """Every measure in milliseconds or tokens/s stands in metrics.toml under its name."""
    listed = tomllib.loads((ROOT / "analysis" / "metrics.toml").read_text())
    ours = {field.name for field in fields(Measures)}
    shares = {"failure", "in_band_error", "cut_at_length", "mismatch"}
    computed_elsewhere = {"output_tokens", "client_wait"} | shares
    assert ours == {
        f"{name}_ms" if metric["unit"] == "ms" else name
        for name, metric in listed.items()
        if name not in computed_elsewhere and not metric.get("probe")
    }


def test_undefined_measures_are_null():
    """As metrics.toml says when each is undefined."""
    _, document = done = (
        whole({"choices": [{"message": {"content": "a"}}], "usage": {"completion_tokens": 5}}),
        None,
    )
    document = measure(done[0], 7 * MS)
    assert document.e2e_ms == 7
    assert {name for name in vars_of(document) if vars_of(document)[name] is not None} == {"e2e_ms"}
    _, one = timed((5, text("a")), (9, finish()), (9, usage(5)), (9, DONE))
    assert (one.ttft_content_ms, one.decode_ms, one.tpot_ms, one.itl_p50_ms) == (
        5,
        None,
        None,
        None,
    )
    _, single = timed((5, text("a")), (6, text("b")), (9, usage(1)), (9, DONE))
    assert (single.decode_ms, single.tpot_ms, single.itl_mean_ms, single.tokens_per_s) == (
        1,
        None,
        None,
        None,
    )
    _, thinking = timed((5, delta(reasoning="a")), (9, DONE))
    assert (thinking.ttft_content_ms, thinking.ttft_answer_ms) == (5, None)
    _, empty = timed((5, b": ping\n\n"), (9, b": ping\n\n"))
    assert (empty.ttft_any_ms, empty.events_per_read) == (None, None)
    _, cut = timed((5, text("a")), transport="reset")
    assert (cut.ttft_content_ms, cut.e2e_ms) == (5, None)
    _, left = timed((5, text("a")), (9, DONE), transport="client_disconnected")
    assert left.e2e_ms == 9  # the client closed at [DONE], as many do


def vars_of(measures):
    return {field.name: getattr(measures, field.name) for field in fields(measures)}


def test_the_first_event_s_tokens_leave_the_mean():
    """AIPerf's inter_token_latency: tokens of the first event are none of the decode."""
    first = text("abc") | {"usage": {"completion_tokens": 3}}
    _, ours = timed((10, first), (40, text("d")), (50, finish()), (50, usage(6)), (50, DONE))
    assert ours.tpot_ms == pytest.approx(30 / 5)
    assert ours.itl_mean_ms == pytest.approx(30 / 3)


ENGINES = {
    "vLLM": (
        {"metrics": {"time_to_first_token_ms": 21.5, "queue_time_ms": 1.5, "mean_itl_ms": 7.0, "tokens_per_second": 9}},
        (1.5, None, 21.5, 7.0),
    ),
    "llama.cpp": ({"timings": {"prompt_ms": 29.2, "predicted_per_token_ms": 12.0, "predicted_ms": 36.0}}, (None, 29.2, None, 12.0)),
    "Dynamo": (
        {"nvext": {"timing": {"prefill_wait_time_ms": 0.5, "prefill_time_ms": 3.7, "ttft_ms": 4.2, "itl_ms": None}}},
        (0.5, 3.7, 4.2, None),
    ),
    "nonsense": ({"metrics": {"queue_time_ms": -1, "mean_itl_ms": float("nan")}, "timings": [], "nvext": 1}, (None,) * 4),
}  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
def test_the_engine_s_own_times(engine):
    """Each engine's names for the same things, on the usage chunk or on the last one."""
    said, wanted = ENGINES[engine]
    _, ours = timed((5, text("a")), (9, usage(2) | said), (9, DONE))
    assert own_times(ours) == wanted
    choice = {"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}
    assert own_times(measure(whole({"choices": [choice]} | said), 1)) == wanted


def test_the_engine_s_own_times_in_headers():
    """TGI says them of a whole answer, in whole milliseconds."""
    headers = (
        ("content-type", "application/json"),
        ("X-Queue-Time", "3"),
        ("x-time-per-token", "12"),
    )
    done = whole({"choices": [{"message": {"content": "a"}}]}, headers=headers)
    assert own_times(measure(done, 1)) == (3.0, None, None, 12.0)
    odd = whole(
        {"choices": [{"message": {"content": "a"}}]},
        headers=(*headers[:1], ("x-queue-time", "inf")),
    )
    assert own_times(measure(odd, 1)) == (None,) * 4


def own_times(ours):
    return ours.server_queue_ms, ours.server_prefill_ms, ours.server_ttft_ms, ours.server_tpot_ms


def test_a_burst_has_a_rate_only_if_time_passed():
    """All tokens in one read: zero time is not divided by."""
    _, ours = timed((10, event(text("a")) + event(text("b"))), (20, usage(2)), (20, DONE))
    assert (ours.decode_ms, ours.tpot_ms, ours.tokens_per_s) == (0, 0, None)


def test_gaps_across_a_hole_in_the_capture_are_not_measured():
    """Inter-token quantiles are null where events are missing; the mean by usage is not."""
    pieces = [event(text(f"w{n}")) for n in range(100)] + [event(usage(100)), DONE]
    body, marks, end = b"".join(pieces), [], 0
    for n, piece in enumerate(pieces):
        end += len(piece)
        marks.append((n * MS, end))
    kept = body[:2000] + body[-600:]
    answer = Answer(
        "/v1/chat/completions", 200, SSE, kept, marks, "complete", None, len(body) - 2600, 600
    )
    ours = measure(read(answer), None)
    assert (ours.itl_p50_ms, ours.itl_max_ms) == (None, None)
    assert ours.tpot_ms == pytest.approx(1.0)


@given(
    st.lists(st.integers(0, 10**12), min_size=1, max_size=50), st.sampled_from([0.5, 0.95, 0.99])
)
def test_quantiles_are_numpy_s(gaps, p):
    """numpy's linear method, without numpy's cost for a few dozen numbers."""
    assert quantile_ms(sorted(gaps), p) == pytest.approx(np.quantile(gaps, p) / 1e6, rel=1e-12)


FAILURES = [
    ("complete", "complete", 200, 0), ("complete", "client_disconnected", 200, 0),
    ("http_error", "complete", 503, 1), ("http_error", "client_disconnected", 503, 1),
    ("in_band_error", "complete", 200, 1), ("no_terminal_event", "complete", 200, 1), ("no_tokens", "complete", 200, 1),
    ("truncated_upstream", "reset", 200, 1), ("truncated_upstream", "connect_failed", None, 1),
    ("truncated_upstream", "timed_out", None, 1), ("truncated_upstream", "breaker_open", None, 1),
    ("not_a_completion", "complete", 200, 1),
    ("client_disconnected", "client_disconnected", 200, None), ("truncated_capture", "cut_by_drain", 200, None),
    ("truncated_capture", "deadline_short", 200, None), ("truncated_capture", "complete", 200, None),
    ("not_a_completion", "client_disconnected", 200, None),
]  # fmt: skip


@pytest.mark.parametrize(("outcome", "transport", "status", "failure"), FAILURES)
def test_failure(outcome, transport, status, failure):
    """1 unless complete; null where the client left or our own cut hides the end."""
    assert failure_of(Completion("openai_chat", True, status, transport, outcome)) == failure


@pytest.mark.parametrize(("outcome", "transport", "status", "failure"), FAILURES)
def test_an_error_inside_of_a_stream_is_a_share_of_the_failures(
    outcome, transport, status, failure
):
    """1 for that outcome alone, null wherever nobody can say whether it failed."""
    share = in_band_error_of(Completion("openai_chat", True, status, transport, outcome))
    assert share == (None if failure is None else int(outcome == "in_band_error"))


@pytest.mark.parametrize(
    ("reasons", "outcome", "cut"),
    [
        (["length"], "complete", 1), (["max_tokens"], "complete", 1), (["max_output_tokens"], "complete", 1),
        (["length", "length"], "complete", 1), (["length", "stop"], "complete", 0), (["stop"], "complete", 0),
        ([None], "complete", None), ([], "complete", None), (["length"], "in_band_error", None),
    ],
)  # fmt: skip
def test_an_answer_cut_at_its_length(reasons, outcome, cut):
    """By each dialect's word; of several choices, where all were; null if it failed or did not say."""
    choices = tuple(Choice(at, finish_reason=reason) for at, reason in enumerate(reasons))
    done = Completion("openai_chat", True, 200, "complete", outcome, choices=choices)
    assert cut_at_length_of(done) == cut


def test_failure_on_a_path_without_dialect_is_unknown():
    """What we do not read, we do not judge."""
    assert failure_of(Completion("", False, 200, "complete", "not_a_completion")) is None


def test_a_stream_of_a_client_that_left():
    """End to end through the reader."""
    assert failure_of(streamed(text("a"), transport="client_disconnected")) is None
