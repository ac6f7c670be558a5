"""200 MB through a real proxy, mirrored: every byte passes, and its memory stays where it was."""

from __future__ import annotations

import asyncio
import contextlib
import random
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from faults.engines import END, Upstream, chunk, good, upstream
from faults.rig import Proxy, books, chat, proxy, records

from shadow.exchange import Exchange

pytestmark = pytest.mark.alone

FRAME = chunk(random.Random(7).randbytes(2**20))
FRAMES = 200
KEPT_MIB, TAIL_KIB = 2, 64
LIMITS = {"answer_bytes": f"{KEPT_MIB}MiB", "answer_tail": f"{TAIL_KIB}KiB"}
GROWS_MB = 24.0
"""By how much the process may be larger meanwhile: two captures and what it takes to write them."""
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> bool:
    """An answer of 200 MB."""
    del reader, body
    writer.write(HEAD)
    for _ in range(FRAMES):
        writer.write(FRAME)
        await writer.drain()
    writer.write(END)
    return True


async def same(reader: asyncio.StreamReader) -> None:
    """The frames come as they were sent."""
    for _ in range(FRAMES):
        assert await reader.readexactly(len(FRAME)) == FRAME
    assert await reader.readexactly(len(END)) == END


@asynccontextmanager
async def beside(tested: Proxy):
    """The block's own connection to the proxy; it grows by no more than it may meanwhile."""
    before = most = tested.rss_mb()

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, tested.rss_mb())
            await asyncio.sleep(0.02)

    watching = asyncio.ensure_future(watch())
    reader, writer = await asyncio.open_connection("127.0.0.1", tested.port, limit=2**21)
    try:
        yield reader, writer
    finally:
        writer.close()
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    print(f"\n{FRAMES} MiB: {most - before:+.1f} MB")  # noqa: T201 what one watches in make soak
    assert most - before < GROWS_MB


def test_an_answer_of_200_mb_is_captured(tmp_path: Path) -> None:
    """The records have its beginning and its end; how much is missing in between they say."""

    async def scene() -> Upstream:
        async with upstream(flood) as primary, upstream(flood) as arm:
            with proxy(
                tmp_path / "tested", primary.url, {"arm": {"url": arm.url}}, limits=LIMITS
            ) as it:
                async with asyncio.timeout(60), beside(it) as (reader, writer):
                    body = chat(1, 200)
                    writer.write(
                        b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n"
                        b"Content-Length: %d\r\n\r\n" % len(body) + body
                    )
                    assert await reader.readexactly(len(HEAD)) == HEAD
                    await same(reader)
                await it.rest()
                return arm

    arm = asyncio.run(scene())
    said = books(tmp_path / "tested")
    for name in ("primary", "arm"):
        said.balance(name)
        assert said.exchanges[name, "complete"] == said.stored(name) == 1
    assert arm.requests == said.reached("arm") == 1
    for record in records(tmp_path / "tested" / "stream"):
        if isinstance(record, Exchange):
            assert record.captured_bytes == KEPT_MIB * 2**20 + TAIL_KIB * 2**10
            assert record.captured_bytes + record.truncated_bytes == FRAMES * 2**20


def test_a_chunked_upload_of_200_mb(tmp_path: Path) -> None:
    """It streams on to the primary; once it is too large to mirror, nothing of it is held, and that
    is counted: no record, and nothing at the arm.
    """
    arrived = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await same(reader)
        arrived.append(True)
        writer.write(OK)
        writer.close()
        await writer.wait_closed()

    async def scene() -> Upstream:
        primary = await asyncio.start_server(accept, "127.0.0.1", 0, limit=2**21)
        url = f"http://127.0.0.1:{primary.sockets[0].getsockname()[1]}"
        async with primary, upstream(good()) as arm:
            with proxy(tmp_path / "tested", url, {"arm": {"url": arm.url}}, limits=LIMITS) as it:
                async with asyncio.timeout(60), beside(it) as (reader, writer):
                    writer.write(
                        b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n"
                        b"Transfer-Encoding: chunked\r\n\r\n"
                    )
                    for _ in range(FRAMES):
                        writer.write(FRAME)
                        await writer.drain()
                    writer.write(END)
                    assert await reader.readexactly(len(OK)) == OK
                await it.rest()
                return arm

    arm = asyncio.run(scene())
    assert arrived
    said = books(tmp_path / "tested")
    for name in ("primary", "arm"):
        said.balance(name)
        assert said.counts[name, "skipped", "body_too_large"] == said.total(name, "eligible") == 1
        assert not said.stored(name)
    assert arm.requests == said.reached("arm") == 0
