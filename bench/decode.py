"""What reading one streamed answer costs, against json.loads of the same events."""

from __future__ import annotations

import gc
import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Protocol

from bench.answers import events, vocabulary
from collector.completion import Answer, read
from collector.measures import measure

Say = Callable[[str], None]

RUNS = 15
SHORT, LONG = 100, 4000
GAP_NS = 12_000_000
_HEADERS = (("content-type", "text/event-stream; charset=utf-8"),)

HOW = """\
One core reads streamed chat answers from their bytes and marks (an event a token, a read an event):
events, completion, times of all events and every measure, as the collector does for each answer.
Beside it `json.loads` of the same events' data, which are cut out beforehand. The figures are of
CPU time, the median of {runs} runs, both kinds in turn, without the garbage collector's pauses; the
bound is 2.5 times. Shapes: {short} tokens an answer; {long} tokens in one; usage on every event; a
log-probability with three rivals on every event; CRLF line ends."""


class Options(Protocol):
    """What this benchmark reads of the command line: nothing."""


def shapes() -> dict[str, list[list[bytes]]]:
    """Seeded answers as their events, by shape."""
    source = random.Random(3)
    words = vocabulary(source)
    short = [events(source.choices(words, k=SHORT), f"{n:024x}") for n in range(LONG // SHORT)]
    long = [events(source.choices(words, k=LONG), "0" * 24)]
    usage = {"usage": {"prompt_tokens": 90, "completion_tokens": 7, "total_tokens": 97}}
    return {
        "short": short,
        "long": long,
        "usage": [[_with(event, usage) for event in long[0]]],
        "logprobs": [[_with(event, {}, logprobs=True) for event in long[0]]],
        "crlf": [[event.replace(b"\n", b"\r\n") for event in long[0]]],
    }


def _with(event: bytes, more: dict[str, object], *, logprobs: bool = False) -> bytes:
    if b"[DONE]" in event:
        return event
    chunk = json.loads(event[6:]) | more
    if logprobs and chunk["choices"]:
        token = {"token": " word", "logprob": -0.25, "bytes": [32, 119]}
        content = [token | {"top_logprobs": [token, token, token]}]
        chunk["choices"][0]["logprobs"] = {"content": content}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def answer_of(pieces: Sequence[bytes]) -> Answer:
    """One answer whose every event came in a read of its own."""
    marks = [(n * GAP_NS, end) for n, end in enumerate(accumulate(map(len, pieces)))]
    return Answer("/v1/chat/completions", 200, _HEADERS, b"".join(pieces), marks, "complete")


def cpu_s(action: Callable[[], object]) -> float:
    """CPU time of one run."""
    begin = time.process_time()
    action()
    return time.process_time() - begin


def compared(answers: list[list[bytes]]) -> tuple[float, float]:
    """CPU seconds of reading and of json.loads, medians."""
    whole = [answer_of(pieces) for pieces in answers]
    payloads = [
        event.removeprefix(b"data: ").rstrip() for pieces in answers for event in pieces[:-1]
    ]
    pairs = [
        (
            cpu_s(lambda: [measure(read(answer), answer.marks[-1][0]) for answer in whole]),
            cpu_s(lambda: [json.loads(payload) for payload in payloads]),
        )
        for _ in range(RUNS)
    ]
    return statistics.median(ours for ours, _ in pairs), statistics.median(t for _, t in pairs)


def main(_options: Options, _absent: Sequence[str], say: Say) -> dict[str, object]:
    """What the command line asks for."""
    figures: dict[str, float] = {}
    gc.collect()
    gc.disable()
    try:
        for shape, answers in shapes().items():
            ours, theirs = compared(answers)
            count = sum(map(len, answers))
            figures |= {f"ratio_{shape}": ours / theirs, f"us_an_event_{shape}": ours / count * 1e6}
    finally:
        gc.enable()
    say("decode  " + " ".join(f"{name}={value:.4g}" for name, value in figures.items()))
    how = HOW.format(runs=RUNS, short=SHORT, long=LONG)
    return {"settings": {"runs": RUNS, "tokens": LONG}, "figures": figures, "how": how}
