"""A drain of all processes together while streams of a minute and a half run on."""

from __future__ import annotations

import asyncio
import time

import pytest
from end_to_end.stage import chat, stage
from relay.raw import client, upstream

SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
STREAM_S = 90.0


def event(n: int) -> bytes:
    said = b'data: {"choices":[{"index":0,"delta":{"content":"%06d"}}]}\n\n' % n
    return b"%x\r\n%b\r\n" % (len(said), said)


async def drained(tmp_path) -> None:
    over = asyncio.Event()
    sent: list[int] = []

    async def streaming(connection):
        await connection.request()
        await connection.write(SSE)
        n = 0
        while not over.is_set():
            await connection.write(event(n))
            n += 1
            await asyncio.sleep(0.5)
        await connection.write(LAST)
        sent.append(n)

    body = chat("a long story")
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(
        body
    )
    async with upstream(streaming) as primary, upstream(streaming) as candidate:
        arms = {"fp8": {"role": "candidate", "url": candidate.url, "sample": 1.0}}
        with stage(tmp_path, primary.url, arms, drain="150s") as running:
            async with client(running.port) as one, client(running.port) as two:
                for user in (one, two):
                    await user.write(head + body)
                    assert await user.until(b"\r\n\r\n") == SSE
                reading = [asyncio.ensure_future(user.rest()) for user in (one, two)]
                begun = time.monotonic()
                running.up.terminate()
                await asyncio.sleep(STREAM_S)
                assert running.up.poll() is None
                assert not any(each.done() for each in reading)
                with pytest.raises(OSError):
                    await asyncio.open_connection("127.0.0.1", running.port)
                over.set()
                got = await asyncio.gather(*reading)
            assert await asyncio.to_thread(running.up.wait, 60) == 0
            assert time.monotonic() - begun < STREAM_S + 45  # nobody waits for `drain` to be over
    assert all(raw.endswith(LAST) for raw in got)
    assert min(sent) > STREAM_S
    for raw in got:
        events = raw.removesuffix(LAST)
        assert events == b"".join(map(event, range(len(events) // len(event(0)))))
        assert len(events) // len(event(0)) in sent


@pytest.mark.whole
def test_a_drain_outlasts_streams_of_a_minute_and_a_half(tmp_path):
    """`shadow up` is told to end: it takes nobody any more, every event of what runs still comes, to the
    last, 90 s later; then it ends by itself, with 0."""
    asyncio.run(drained(tmp_path))
