"""Load from one process, measured at the client: `python -m bench.load streams|paced …` prints JSON.

streams PORT STREAMS EVENTS GAP_MS   concurrent event streams; time to the first byte, and how
                                     long each event travelled since the upstream wrote it
paced PORT PER_SECOND SECONDS        small JSON at a fixed rate, sent whether or not answers
                                     come (an open loop); the time from write to whole answer
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Sequence
from typing import cast

import uvloop

from bench.figures import NS_PER_MS, quantile
from bench.upstream import STAMP, STAMP_DIGITS

PATH = "/v1/chat/completions"
PROMPT = "hello " * 80
_STAMP_BYTES = len(STAMP) + STAMP_DIGITS
_LAST_CHUNK = b"0\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_START_OVER_S = 0.5
_TICK_S = 0.001
_PATIENCE_S = 60.0
_LAST_ANSWERS_S = 10.0


def request(target: str, *, stream: bool) -> bytes:
    """One chat request, about 560 bytes of body."""
    asked = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": PROMPT}]}
    body = json.dumps(asked).encode()
    head = f"POST {target} HTTP/1.1\r\nHost: engine\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


def milliseconds(name: str, values_ns: Sequence[int]) -> dict[str, float]:
    """The figures of one series of times."""
    return {
        f"{name}_p50_ms": quantile(values_ns, 0.50) / NS_PER_MS,
        f"{name}_p99_ms": quantile(values_ns, 0.99) / NS_PER_MS,
    }


class _Streaming(asyncio.Protocol):
    """One request, one event stream."""

    def __init__(self, sent: bytes, ended: asyncio.Future[None]) -> None:
        self._sent, self._ended = sent, ended
        self._rest = b""
        self.first_byte_ns: int | None = None
        self.delays_ns: list[int] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._began_ns = time.monotonic_ns()
        self._transport.write(self._sent)

    def data_received(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        if self.first_byte_ns is None:
            self.first_byte_ns = now_ns - self._began_ns
        text = self._rest + data
        at = text.find(STAMP)
        while 0 <= at <= len(text) - _STAMP_BYTES:
            self.delays_ns.append(now_ns - int(text[at + len(STAMP) : at + _STAMP_BYTES]))
            at = text.find(STAMP, at + _STAMP_BYTES)
        self._rest = text[at:] if at >= 0 else text[1 - len(STAMP) :]
        if text.endswith(_LAST_CHUNK):
            self._transport.close()

    def connection_lost(self, _exc: Exception | None) -> None:
        if not self._ended.done():
            self._ended.set_result(None)


async def streams(port: int, count: int, events: int, gap_ms: float) -> dict[str, float]:
    """Read `count` concurrent streams; their starts are spread over half a second.

    Raises:
        RuntimeError: an event is missing.
    """
    loop = asyncio.get_running_loop()
    sent = request(f"{PATH}?events={events}&gap_ms={gap_ms:g}", stream=True)

    async def one(index: int) -> _Streaming:
        await asyncio.sleep(index / count * _START_OVER_S)
        ended: asyncio.Future[None] = loop.create_future()
        _, client = await loop.create_connection(lambda: _Streaming(sent, ended), "127.0.0.1", port)
        await ended
        return client

    clients = await asyncio.wait_for(asyncio.gather(*map(one, range(count))), _PATIENCE_S)
    delays_ns = [delay for client in clients for delay in client.delays_ns]
    if len(delays_ns) != count * events:
        raise RuntimeError(f"{count * events} events were due, {len(delays_ns)} came")
    first_ns = [client.first_byte_ns for client in clients if client.first_byte_ns is not None]
    return {
        "requests": count,
        "events": len(delays_ns),
        **milliseconds("ttfb", first_ns),
        **milliseconds("delay", delays_ns),
    }


class _Asking(asyncio.Protocol):
    """A kept-alive connection: one request at a time."""

    def __init__(self, idle: list[_Asking], times_ns: list[int]) -> None:
        self._idle, self._times_ns = idle, times_ns
        self._answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def ask(self, sent: bytes) -> None:
        self._answer = b""
        self._began_ns = time.monotonic_ns()
        self._transport.write(sent)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head_end = self._answer.find(b"\r\n\r\n")
        length = _LENGTH.search(self._answer, 0, head_end) if head_end >= 0 else None
        if length and len(self._answer) >= head_end + 4 + int(length[1]):
            if self._answer.startswith(b"HTTP/1.1 200"):
                self._times_ns.append(time.monotonic_ns() - self._began_ns)
            self._idle.append(self)

    def connection_lost(self, _exc: Exception | None) -> None:
        if self in self._idle:
            self._idle.remove(self)

    def close(self) -> None:
        self._transport.close()


async def paced(port: int, per_second: int, seconds: float) -> dict[str, float]:
    """Send at a fixed rate on as many connections as that takes.

    Raises:
        RuntimeError: more than one request in a hundred had no 200 within `_LAST_ANSWERS_S`.
    """
    loop = asyncio.get_running_loop()
    sent = request(PATH, stream=False)
    idle: list[_Asking] = []
    times_ns: list[int] = []
    opened: list[_Asking] = []
    begin_s, total, due = time.monotonic(), int(per_second * seconds), 0
    for number in range(total):
        while number >= due:
            await asyncio.sleep(_TICK_S)
            due = int((time.monotonic() - begin_s) * per_second) + 1
        if not idle:
            _, fresh = await loop.create_connection(
                lambda: _Asking(idle, times_ns), "127.0.0.1", port
            )
            opened.append(fresh)
            idle.append(fresh)
        idle.pop().ask(sent)
    last_s = time.monotonic() + _LAST_ANSWERS_S
    while len(times_ns) < total and time.monotonic() < last_s:  # noqa: ASYNC110 no event a request
        await asyncio.sleep(_TICK_S)
    for connection in opened:
        connection.close()
    if len(times_ns) < 0.99 * total:
        raise RuntimeError(f"{total} answers were due, {len(times_ns)} came")
    return {"requests": total, "answers": len(times_ns), **milliseconds("time", times_ns)}


def main(arguments: Sequence[str]) -> None:
    kind, port, *rest = arguments
    if kind == "streams":
        run = streams(int(port), int(rest[0]), int(rest[1]), float(rest[2]))
    else:
        run = paced(int(port), int(rest[0]), float(rest[1]))
    sys.stdout.write(json.dumps(uvloop.run(run)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
