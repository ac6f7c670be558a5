"""Upstreams for the faults: a primary whose every answer follows from its request, and arms that
misbehave in one way each. All of them count the requests that they read.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import random
import re
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def events(body: bytes, count: int, size: int = 0) -> list[bytes]:
    """The answer to a request: `count` events that name it, each of at least `size` bytes."""
    name = hashlib.blake2b(body, digest_size=16).hexdigest().encode()
    padding = _padding(size)
    return [b'data: {"of":"%b","n":%d,"p":"%b"}\n\n' % (name, n, padding) for n in range(count)]


@cache
def _padding(size: int) -> bytes:
    """Text of which a fourth does not compress to nothing, or packing it would cost nothing."""
    return base64.b64encode(random.Random(size).randbytes(size))[: size // 4].ljust(size, b"x")


def answer_of(body: bytes, count: int = 5, size: int = 0) -> bytes:
    """Every byte that a client of the primary must get for this body."""
    return HEAD + b"".join(chunk(event) for event in events(body, count, size)) + END


@dataclass
class Upstream:
    """A listening upstream and what it has counted."""

    port: int = 0
    requests: int = 0
    """Heads and bodies that were read whole."""
    answered: int = 0
    open: int = 0
    most_open: int = 0
    """The highest number of requests at once."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


Manner = Callable[[asyncio.StreamReader, asyncio.StreamWriter, bytes], Awaitable[bool]]
"""Answers one request; False: the connection is over."""


@asynccontextmanager
async def upstream(manner: Manner, backlog: int = 4096) -> AsyncIterator[Upstream]:
    """One that answers each request in this manner."""
    said, ended = Upstream(), []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        said.tasks.add(task)
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = LENGTH.search(head)
                body = await reader.readexactly(int(length[1])) if length else b""
                if not await _served(said, manner(reader, writer, body)):
                    break
        if ended:
            writer.transport.abort()
        writer.close()
        said.tasks.discard(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, backlog=backlog)
    said.port = server.sockets[0].getsockname()[1]
    try:
        yield said
    finally:
        server.close()
        ended.append(True)
        for task in said.tasks:
            task.cancel()
        await asyncio.gather(*said.tasks, return_exceptions=True)
        await server.wait_closed()


async def _served(said: Upstream, answering: Awaitable[bool]) -> bool:
    said.requests += 1
    said.open += 1
    said.most_open = max(said.most_open, said.open)
    try:
        goes_on = await answering
        said.answered += goes_on
        return goes_on
    finally:
        said.open -= 1


def good(count: int = 5, size: int = 0, gap_s: float = 0.0) -> Manner:
    """Answers as it should."""

    async def manner(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes
    ) -> bool:
        del reader
        writer.write(HEAD)
        for event in events(body, count, size):
            writer.write(chunk(event))
            if gap_s:
                await asyncio.sleep(gap_s)
        writer.write(END)
        await writer.drain()
        return True

    return manner


async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> bool:
    """Takes the request and never says a word, until the other side has left."""
    del writer, body
    await reader.read(1)
    return False


async def resets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> bool:
    """RST in mid-stream."""
    del reader
    writer.write(HEAD + chunk(events(body, 1)[0]))
    await writer.drain()
    plug = writer.get_extra_info("socket")
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    return False


async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> bool:
    """Status 500 with 100 KB of body."""
    del reader, body
    writer.write(b"HTTP/1.1 500 No\r\nContent-Length: 100000\r\n\r\n" + b"e" * 100_000)
    await writer.drain()
    return True


async def babbles(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> bool:
    """No HTTP at all."""
    del reader, body
    writer.write(b"\x16\x03\x01 this is no answer \x00\xff\r\n\r\n" * 50)
    await writer.drain()
    return False


def half(capacity: int, gap_s: float) -> Manner:
    """Good, but serves so many at once and lets the others wait."""
    slots = asyncio.Semaphore(capacity)
    answers = good(gap_s=gap_s)

    async def manner(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes
    ) -> bool:
        async with slots:
            return not reader.at_eof() and await answers(reader, writer, body)

    return manner


@asynccontextmanager
async def nobody() -> AsyncIterator[Upstream]:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        yield Upstream(probe.getsockname()[1])
