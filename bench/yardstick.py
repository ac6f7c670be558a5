"""The obvious proxy in aiohttp, as a yardstick: `python -m bench.yardstick PORT PRIMARY [CANDIDATE]`.

It relays to PRIMARY; with CANDIDATE it also sends each request there and keeps that answer with its
arrival marks until it ends, as a comparing proxy has to. It publishes nothing.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import uvloop
from aiohttp import web

_OF_THE_HOP = frozenset(
    {"connection", "content-length", "host", "keep-alive", "te", "transfer-encoding", "upgrade"}
)
_OWN_FIELDS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
Fields = list[tuple[str, str]]


def _end_to_end(headers: aiohttp.typedefs.LooseHeaders | object) -> Fields:
    assert hasattr(headers, "items")
    return [(name, value) for name, value in headers.items() if name.lower() not in _OF_THE_HOP]


@asynccontextmanager
async def _client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=_OWN_FIELDS,
        timeout=aiohttp.ClientTimeout(total=None),
    ) as session:
        yield session


class Proxy:
    """Relay, and mirror where there is a candidate."""

    def __init__(self, session: aiohttp.ClientSession, primary: str, candidate: str | None) -> None:
        self._session, self._primary, self._candidate = session, primary, candidate
        self._mirrors: set[asyncio.Task[None]] = set()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body, fields = await request.read(), _end_to_end(request.headers)
        if self._candidate is not None:
            mirror = asyncio.ensure_future(
                self._mirror(self._candidate, request.method, request.path_qs, fields, body)
            )
            self._mirrors.add(mirror)
            mirror.add_done_callback(self._mirrors.discard)
        async with self._session.request(
            request.method,
            self._primary + request.path_qs,
            headers=fields,
            data=body,
            allow_redirects=False,
        ) as upstream:
            return await _relay(request, upstream)

    async def _mirror(
        self, url: str, method: str, target: str, fields: Fields, body: bytes
    ) -> None:
        kept: list[tuple[int, bytes]] = []
        async with self._session.request(method, url + target, headers=fields, data=body) as answer:
            async for part in answer.content.iter_any():
                kept.append((time.monotonic_ns(), part))  # noqa: PERF401 the moment matters


async def _relay(request: web.BaseRequest, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
    fields = _end_to_end(upstream.headers)
    if upstream.headers.get("Content-Length") is not None:
        return web.Response(status=upstream.status, body=await upstream.read(), headers=fields)
    response = web.StreamResponse(status=upstream.status, headers=fields)
    await response.prepare(request)
    async for part in upstream.content.iter_any():
        await response.write(part)
    await response.write_eof()
    return response


async def serve(port: int, primary: str, candidate: str | None) -> None:
    """Serve on the loopback until the process ends."""
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(_client())
        runner = web.ServerRunner(web.Server(Proxy(session, primary, candidate).answer))
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", port, backlog=4096).start()
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None))
