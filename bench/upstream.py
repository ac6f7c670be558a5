"""A stand-in for an engine, as cheap as Python allows: `python -m bench.upstream PORT`.

POST anything: one short JSON answer. POST …?events=101&gap_ms=20: that many server-sent events at
that pace, each carrying the moment it was written (`"id":"t` and 20 digits of monotonic
nanoseconds), so that a reader on the same machine knows how long it travelled. GET /counts: how
many requests and events were answered, and how many streams are still open.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from typing import cast
from urllib.parse import parse_qs, urlsplit

import uvloop

STAMP = b'"id":"t'
STAMP_DIGITS = 20

_EVENT = (
    b'data: {"id":"t%020d","object":"chat.completion.chunk","created":1,"model":"m","choices":'
    b'[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}\n\n'
)
_DONE = b"data: [DONE]\n\n"
_COMPLETION = json.dumps(
    {
        "id": "x",
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "hello world"},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 90, "completion_tokens": 2, "total_tokens": 92},
    }
).encode()
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_BACKLOG = 4096


def json_answer(body: bytes) -> bytes:
    """A whole 200 answer."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


_SHORT = json_answer(_COMPLETION)


class Counts:
    """How much this upstream has answered."""

    def __init__(self) -> None:
        self.requests = 0
        self.events = 0
        self.open = 0


class Answering(asyncio.Protocol):
    """One connection: requests with a Content-Length, or without a body, one after another."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._request_end()) is not None:
            target = self._buffer.split(b" ", 2)[1]
            self._buffer = self._buffer[end:]
            self._answer(target)

    def _request_end(self) -> int | None:
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return None
        length = _LENGTH.search(self._buffer, 0, head_end)
        end = head_end + 4 + (int(length[1]) if length else 0)
        return end if len(self._buffer) >= end else None

    def _answer(self, target: bytes) -> None:
        if target == b"/counts":
            self._transport.write(json_answer(json.dumps(vars(self._counts)).encode()))
            return
        self._counts.requests += 1
        if b"?" not in target:
            self._transport.write(_SHORT)
            return
        asked = parse_qs(urlsplit(target.decode()).query)
        self._transport.write(_STREAM_HEAD)
        self._stream(int(asked["events"][0]), float(asked["gap_ms"][0]) / 1e3)

    def _stream(self, events: int, gap_s: float) -> None:
        """Write `events` events on a fixed grid of time, so that nothing drifts."""
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        self._counts.open += 1

        def step(sent: int) -> None:
            if sent == events or self._transport.is_closing():
                self._counts.open -= 1
                self._transport.write(chunk(_DONE) + b"0\r\n\r\n")
                return
            self._counts.events += 1
            self._transport.write(chunk(_EVENT % time.monotonic_ns()))
            loop.call_at(begin_s + (sent + 1) * gap_s, step, sent + 1)

        step(0)


async def serve(port: int) -> None:
    """Answer on the loopback until the process ends."""
    counts = Counts()
    server = await asyncio.get_running_loop().create_server(
        lambda: Answering(counts), "127.0.0.1", port, backlog=_BACKLOG
    )
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
