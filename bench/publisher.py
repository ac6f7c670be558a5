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

from shadow.accounting import Ledger
from shadow.exchange import Exchange, RequestFacts, encode
from shadow.publisher import Publisher
from shadow.stream.embedded import EmbeddedProducer

SECONDS = 4.0


def event(number: int) -> bytes:
    delta = {
        "index": 0,
        "delta": {"content": f" word{number * 7919 % 1000}"},
        "finish_reason": None,
    }
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": [delta]}
    return b"data: " + json.dumps(head).encode() + b"\n\n"


class Item:
    __slots__ = ("arm", "body", "marks", "size_bytes", "token")

    def __init__(self, token: int, body: bytes, marks: list) -> None:
        self.arm, self.token, self.body, self.marks = "fp8", token, body, marks
        self.size_bytes = len(body) + 1000

    def exchange(self, sequence: int) -> Exchange:
        return Exchange(
            experiment="e", config_hash="c" * 16, pair_id="p" * 32, arm=self.arm, role="candidate",
            worker="proxy-0", boot_id="b" * 16, sequence=sequence, arrived_at=1, started_at=1,
            method="POST", path="/v1/chat/completions", status=200,
            headers=[("content-type", "text/event-stream"), ("server", "uvicorn"), ("date", "x")],
            request_facts=RequestFacts.model_construct(model="m"), marks=self.marks,
            body=self.body, captured_bytes=len(self.body), transport="complete",
        )  # fmt: skip


async def run(rate: int, events: int) -> None:
    folder = Path(tempfile.mkdtemp())
    ledger, _ = Ledger.open(folder, "proxy-0", "e", "c")
    publisher = Publisher(lambda: EmbeddedProducer(folder / "s", "proxy-0"), ledger, 64 * 2**20)
    body = b"".join(map(event, range(events))) or b'{"id":"x","choices":[]}'
    marks = [(n * 10_000_000, n * 150) for n in range(max(1, events))]
    cpu, late, offered, began = time.process_time(), [], 0, time.perf_counter()
    offer_ns = 0
    while (now := time.perf_counter()) - began < SECONDS:
        due = int((now - began) * rate)
        for _ in range(due - offered):
            item = Item(ledger.opened(1), body, marks)
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
        encode(Item(1, body, marks).exchange(n + 1))
    print(f"exchange() + encode: {(time.perf_counter() - began) / 200 * 1e6:.1f} us")


if __name__ == "__main__":
    arguments = [*sys.argv[1:], *("2000", "0", "0.005")[len(sys.argv) - 1 :]]
    sys.setswitchinterval(float(arguments[2]))
    uvloop.run(run(int(arguments[0]), int(arguments[1])))
