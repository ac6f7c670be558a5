"""What publishing costs: CPU an exchange, and how late the event loop's ticks become beside it.

python bench/publisher.py [exchanges a second] [answer's SSE events] [switch interval, s]
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from shadow.capture.capture import Capture
from shadow.capture.request import Request
from shadow.capture.side import Origin, Side
from shadow.config.upstream import HeaderChanges
from shadow.mirror.headers import ArmHeaders
from shadow.publish.accounting import Ledger
from shadow.publish.publisher import Publisher
from shadow.relay.answer import parse_answer
from shadow.relay.head import parse_request
from shadow.stream.embedded import EmbeddedProducer

SECONDS = 4.0
ASKED = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"%b"}]}' % (
    b"hello " * 80
)
REQUEST = parse_request(
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d" % len(ASKED)
)
ANSWER = parse_answer(
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nserver: uvicorn\r\ndate: x",
    bodyless=False,
)
SIDE = Side(
    Origin("e", "c" * 16, "proxy-0", "b" * 16),
    "fp8",
    "candidate",
    1.0,
    ArmHeaders("fp8", b"h", b"", HeaderChanges()),
    2**23,
    2**16,
)


def event(number: int) -> bytes:
    delta = {
        "index": 0,
        "delta": {"content": f" word{number * 7919 % 1000}"},
        "finish_reason": None,
    }
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": [delta]}
    return b"data: " + json.dumps(head).encode() + b"\n\n"


def capture(token: int, body: bytes, marks: list[int]) -> Capture:
    """One answer of the candidate, as the proxy would have kept it."""
    request = Request(REQUEST, "p" * 32, 1, token, ASKED)
    kept = Capture(SIDE, request, 1, 1, 0)
    kept.sent_ns = kept.first_byte_ns = 1
    kept.head = ANSWER
    step = -(-len(body) // max(1, len(marks)))
    for number, at in enumerate(marks):
        kept.append(at, [body[number * step : (number + 1) * step]])
    kept.end(marks[-1], "complete")
    return kept


async def run(rate: int, events: int) -> None:
    folder = Path(tempfile.mkdtemp())
    ledger, _ = Ledger.open(folder, "proxy-0", "e", "c")
    publisher = Publisher(lambda: EmbeddedProducer(folder / "s", "proxy-0"), ledger, 64 * 2**20)
    body = b"".join(map(event, range(events))) or b'{"id":"x","choices":[]}'
    marks = [(n + 1) * 10_000_000 for n in range(max(1, events))]
    cpu, late, offered, began = time.process_time(), [], 0, time.perf_counter()
    offer_ns = 0
    while (now := time.perf_counter()) - began < SECONDS:
        due = int((now - began) * rate)
        for _ in range(due - offered):
            item = capture(ledger.opened(1), body, marks)
            at = time.perf_counter_ns()
            publisher.offer(item)
            offer_ns += time.perf_counter_ns() - at
        offered = max(due, offered)
        before = time.perf_counter()
        await asyncio.sleep(0.001)
        late.append(time.perf_counter() - before - 0.001)
    clean = publisher.close(15)
    cpu = time.process_time() - cpu
    counts = ledger.values()
    ledger.close(published=clean)
    late.sort()
    p50, p90, p95, p99 = (late[int(len(late) * q)] * 1e3 for q in (0.5, 0.9, 0.95, 0.99))
    print(
        f"{rate}/s, {len(body)} B: offered {offered}, captured "
        f"{counts.get(('fp8', 'captured', ''), 0)}, process CPU {cpu / SECONDS:.1%}, offer "
        f"{offer_ns / max(1, offered) / 1e3:.2f} us, tick late p50 {p50:.2f} p90 {p90:.2f} "
        f"p95 {p95:.2f} p99 {p99:.2f} ms"
    )
    began = time.perf_counter()
    for n in range(200):
        capture(1, body, marks).message(n + 1)
    print(f"a capture and its record: {(time.perf_counter() - began) / 200 * 1e6:.1f} us")


if __name__ == "__main__":
    arguments = [*sys.argv[1:], *("2000", "0", "0.005")[len(sys.argv) - 1 :]]
    sys.setswitchinterval(float(arguments[2]))
    uvloop.run(run(int(arguments[0]), int(arguments[1])))
