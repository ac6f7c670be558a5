"""A simulated engine in the test's own loop, and what a raw socket saw of its answer."""

import asyncio
import contextlib
from dataclasses import dataclass, replace

import orjson
from aiohttp import web

from shadow.engine_sim.engine import app
from shadow.engine_sim.settings import Settings

QUICK = Settings(ttft_ms=1, itl_ms=1, tokens=6)


@contextlib.asynccontextmanager
async def engine(settings):
    """The port of a running engine."""
    runner = web.AppRunner(app(settings), handler_cancellation=True, shutdown_timeout=0.05)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@dataclass(frozen=True)
class Seen:
    """One answer on the wire: the head, the de-chunked body, the chunks, and how it ended."""

    head: str
    body: bytes
    chunks: list
    end: str  # whole, fin, rst

    @property
    def status(self):
        return int(self.head.split(" ", 2)[1])

    @property
    def events(self):
        """The documents of a stream, without [DONE]."""
        lines = [line for line in self.body.decode().split("\n") if line]
        return [orjson.loads(line[6:]) for line in lines if line.strip() != "data: [DONE]"]

    @property
    def done(self):
        return self.body.rstrip().endswith(b"data: [DONE]")

    @property
    def text(self):
        return "".join(
            c.get("delta", {}).get("content") or c.get("text", "")
            for event in self.events
            for c in event.get("choices", [])
        )


def chat(prompt="Say something.", **fields):
    messages = [{"role": "user", "content": prompt}]
    return "/v1/chat/completions", {"model": "sim", "messages": messages, "stream": True, **fields}


async def ask(port, path, payload, headers=""):
    """Send one request over a connection of its own and read to the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = payload if isinstance(payload, bytes) else orjson.dumps(payload)
    head = f"POST {path} HTTP/1.1\r\nHost: e\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    writer.write(head.encode() + body)
    try:
        return await _read(reader)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def _read(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    chunks, end = [], "whole"
    try:
        if "transfer-encoding: chunked" in head.lower():
            while (size := int(await reader.readuntil(b"\r\n"), 16)) > 0:
                chunks.append((await reader.readexactly(size + 2))[:-2])
            await reader.readexactly(2)
        else:
            length = next(
                int(line.split(":")[1])
                for line in head.split("\r\n")
                if line.lower().startswith("content-length")
            )
            while sum(map(len, chunks)) < length:
                part = await reader.read(length)
                if not part:
                    end = "fin"
                    break
                chunks.append(part)
    except asyncio.IncompleteReadError:
        end = "fin"
    except ConnectionResetError:
        end = "rst"
    return Seen(head, b"".join(chunks), chunks, end)


def answers(settings, *requests):
    """What a fresh engine answers to each of the requests, one after the other."""

    async def run():
        async with engine(settings) as port:
            return [await ask(port, *request) for request in requests]

    return asyncio.run(run())


def quick(**changes):
    return replace(QUICK, **changes)
