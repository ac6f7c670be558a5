"""What the sender thread does to a large record never keeps the interpreter's lock for long."""

from __future__ import annotations

import base64
import itertools
import json
import random
import sys
import time

import pytest

from shadow.capture.capture import Capture
from shadow.capture.facts import PARSED_VALUES, request_facts
from shadow.capture.request import Request
from shadow.capture.side import Origin, Side
from shadow.exchange import decode
from shadow.relay.head import parse_request

HEAD = parse_request(b"POST /v1/completions HTTP/1.1\r\nHost: h")
LETS_GO = {"compress", "flush", "join"}
"""They let go of the lock while they work; join from a MiB on."""
HELD_S = 0.005


def incompressible(size: int) -> bytes:
    draw = random.Random(1)
    texts = [base64.b64encode(draw.randbytes(300)).decode() for _ in range(size // 440)]
    messages = [{"role": "user", "content": text} for text in texts]
    return json.dumps({"model": "m", "messages": messages}).encode()


def longest_call(work) -> tuple[float, str]:
    """The CPU seconds of the longest call into C that keeps the lock, and its name."""
    begun: list[float] = []
    longest = (0.0, "")

    def profile(frame, event, function):
        nonlocal longest
        if event == "c_call":
            begun.append(time.thread_time())
        elif event in {"c_return", "c_exception"} and begun:
            name = getattr(function, "__name__", "")
            took = time.thread_time() - begun.pop()
            if name not in LETS_GO:
                longest = max(longest, (took, name))

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return longest


def captured(request: bytes, arrivals: list[bytes]) -> Capture:
    side = Side(Origin("e", "h", "w", "b"), "primary", "primary", 1.0, None, 2**24, 65536)
    kept = Capture(side, Request(HEAD, "p" * 32, 1, 7, request), 1, 1, 0)
    for n, piece in enumerate(arrivals):
        kept.append(n + 1, [piece])
    kept.end(10**9, "complete")
    return kept


DENSE = b'{"model":"m","x":[' + b"[]," * 300_000 + b"1]}"


@pytest.mark.parametrize(
    ("request_body", "arrivals"),
    [
        (incompressible(8_000_000), [incompressible(8_000_000)]),
        (bytearray(incompressible(2_000_000)), []),
        (DENSE, [DENSE]),
        (b"{}", [b"ab"] * 400_000),
    ],
    ids=["incompressible", "two megabytes", "dense", "marks"],
)
def test_no_call_keeps_the_lock(request_body, arrivals):
    """Of a giant's encoding no single call takes the loop 5 ms; the record is whole all the same."""
    kept = captured(request_body, arrivals)
    values = []
    took, name = longest_call(lambda: values.append(kept.message(1).value))
    assert took < HELD_S, name
    exchange = decode(values[0])
    assert exchange.request == request_body
    assert exchange.body == b"".join(arrivals)
    assert len(exchange.marks) == len(arrivals)
    assert [end for _, end in exchange.marks] == list(itertools.accumulate(map(len, arrivals)))
    assert exchange.request_facts.bytes == len(request_body)


@pytest.mark.parametrize("size", [262_143, 262_144, 262_145, 262_146, 600_000])
def test_what_is_coded_in_pieces_is_the_same(size):
    """Around the bound, in every remainder of three."""
    body = random.Random(size).randbytes(size)
    exchange = decode(captured(body, [body]).message(1).value)
    assert (exchange.request, exchange.body) == (body, body)


def test_facts_of_what_takes_long_are_not_read():
    """Up to a MiB of text is; half of it full of brackets, or more than it, is told by its size."""
    assert request_facts(incompressible(900_000))["model"] == "m"
    assert request_facts(DENSE) == {"bytes": len(DENSE)}
    assert request_facts(incompressible(1_200_000)).keys() == {"bytes"}
    few = b'{"model":"m","x":[' + b"[]," * (PARSED_VALUES // 2 - 10) + b"1]}"
    assert request_facts(few)["model"] == "m"
