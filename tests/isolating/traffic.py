"""Real traffic for a proxy under test, in a process of its own: an upstream, and its clients.

python traffic.py REQUESTS_A_SECOND STREAMS STREAM_S: prints the upstream's port, reads the proxy's,
then sends until its input ends.
"""

from __future__ import annotations

import asyncio
import random
import sys

import uvloop

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BODY = b'{"model":"m","stream":%s}'
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":" word"}}]}\n\n'
EVENTS = 20
CONNECTIONS = 16


def post(*, stream: bool) -> bytes:
    body = BODY % (b"true" if stream else b"false")
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers at once, or with 20 events spread over STREAM_S."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            if b"true" not in await reader.readexactly(length):
                writer.write(OK)
                continue
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n"
            )
            for _ in range(EVENTS):
                writer.write(b"%x\r\n%s\r\n" % (len(EVENT), EVENT))
                await asyncio.sleep(float(sys.argv[3]) / EVENTS)
            writer.write(b"0\r\n\r\n")
    except (EOFError, ConnectionError, asyncio.CancelledError):
        writer.close()


async def ask(port: int, *, stream: bool, a_second: float) -> None:
    """One connection's requests, at random moments."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while True:
        if not stream:
            await asyncio.sleep(random.expovariate(a_second))
        writer.write(post(stream=stream))
        if stream:
            await reader.readuntil(b"0\r\n\r\n")
        else:
            await reader.readexactly(len(OK))


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    loop = asyncio.get_running_loop()
    port = int(await loop.run_in_executor(None, sys.stdin.readline))
    rate, streams = float(sys.argv[1]), int(sys.argv[2])
    small = [ask(port, stream=False, a_second=rate / CONNECTIONS) for _ in range(CONNECTIONS)]
    asking = asyncio.gather(*small, *(ask(port, stream=True, a_second=0) for _ in range(streams)))
    await loop.run_in_executor(None, sys.stdin.read)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


if __name__ == "__main__":
    uvloop.run(main())
