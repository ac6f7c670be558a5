"""Synthetic exchanges: pairs of streamed chat answers of 100 tokens, seeded. Pure."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import accumulate, count

from shadow.exchange import Exchange, Mark, RequestFacts

TOKENS = 100
DISTINCT = 500
"""Different answers; texts repeat beyond that, marks never do."""

_WORDS = 4000
_LETTERS = "etaoinshrdlucmfwypvbgk"
_TTFT_NS, _GAP_NS, _ARRIVAL_GAP_NS = 80_000_000, 12_000_000, 5_000_000
_SLOWER = 1.05
_HEADERS = [("content-type", "text/event-stream; charset=utf-8"), ("server", "uvicorn")]
_REQUEST = json.dumps(
    {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello " * 80}]}
).encode()
_FACTS = RequestFacts(model="m", streamed=True, bytes=len(_REQUEST), turns=1, tools=0)


def vocabulary(random_source: random.Random) -> list[str]:
    """Words that compress about as English does: common letters, short words."""
    weights = [1 / rank for rank in range(1, len(_LETTERS) + 1)]
    lengths = [random_source.choice((2, 3, 4, 5, 7, 9)) for _ in range(_WORDS)]
    return ["".join(random_source.choices(_LETTERS, weights, k=length)) for length in lengths]


def events(words: list[str], name: str) -> list[bytes]:
    """The data events of one streamed answer: a role, the tokens, the end with its usage, [DONE]."""
    deltas: list[dict[str, str]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": f" {word}"} for word in words]
    choices: list[object] = [
        [{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas
    ]
    choices.append([{"index": 0, "delta": {}, "finish_reason": "stop"}])
    usage = {"prompt_tokens": 90, "completion_tokens": len(words), "total_tokens": 90 + len(words)}
    return [
        *(_event(name, {"choices": choice}) for choice in choices),
        _event(name, {"choices": [], "usage": usage}),
        b"data: [DONE]\n\n",
    ]


def _event(name: str, rest: dict[str, object]) -> bytes:
    head = {"id": f"chatcmpl-{name}", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps(head | rest).encode() + b"\n\n"


def answers(seed: int) -> list[list[bytes]]:
    """`DISTINCT` answers as their events."""
    source = random.Random(seed)
    words = vocabulary(source)
    return [
        events(source.choices(words, k=TOKENS), f"{source.getrandbits(96):024x}")
        for _ in range(DISTINCT)
    ]


def _marks(answer: list[bytes], scale: float, source: random.Random) -> list[Mark]:
    """One mark an event: exponential first token, gamma-like gaps."""
    first = int(source.expovariate(1 / _TTFT_NS) * scale)
    gaps = (int(source.gammavariate(4, _GAP_NS / 4) * scale) for _ in answer)
    ends = accumulate(len(event) for event in answer)
    return [(first + at, end) for at, end in zip(accumulate(gaps), ends, strict=True)]


def exchanges(pairs: int, begin_ns: int, experiment: str, config_hash: str) -> Iterator[Exchange]:
    """Both exchanges of each pair; one pair in ten differs in its text."""
    source, kept, sequence = random.Random(2), answers(1), count(1)
    for pair in range(pairs):
        arrived = begin_ns + pair * _ARRIVAL_GAP_NS
        for arm, role, scale in (("primary", "primary", 1.0), ("candidate", "candidate", _SLOWER)):
            other = arm == "candidate" and source.random() < 0.1
            answer = kept[(pair + other) % DISTINCT]
            marks = _marks(answer, scale, source)
            yield Exchange(
                experiment=experiment,
                config_hash=config_hash,
                pair_id=f"{pair:032x}",
                arm=arm,
                role=role,
                worker="0",
                boot_id="bench",
                sequence=next(sequence),
                arrived_at=arrived,
                started_at=arrived,
                sent_ns=100_000,
                first_byte_ns=100_000 + marks[0][0],
                end_ns=100_000 + marks[-1][0],
                marks=marks,
                method="POST",
                path="/v1/chat/completions",
                status=200,
                headers=_HEADERS,
                request=_REQUEST if arm == "primary" else None,
                request_facts=_FACTS,
                body=b"".join(answer),
                captured_bytes=sum(map(len, answer)),
                transport="complete",
            )
