"""ClickHouse's HTTP interface over chDB: as much of it as ClickHouse's clients ask for."""

from __future__ import annotations

import secrets
import tempfile
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from collector.embedded.answers import error_response, head_fields
from collector.embedded.coding import chosen
from collector.embedded.errors import (
    ACCESS_DENIED,
    TOO_MANY_SIMULTANEOUS_QUERIES,
    EngineError,
    said,
)
from collector.embedded.hello import asks_hello, hello_block
from collector.embedded.query import SPOOL_BYTES, STATEMENT_BYTES, Head, Query
from collector.embedded.receive import BODY_BYTES, peek, receive
from collector.embedded.request import Access, check_access, read_query, wants_coding
from collector.embedded.threads import Threads
from collector.embedded.worker import Item, Job, Opening

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import IO

    from collector.embedded.bounds import Bounds
    from collector.embedded.engine import Engine
    from collector.embedded.pipe import Pipe

OPEN_REQUESTS = 200
"""Requests that run or wait; beyond it, ClickHouse's TOO_MANY_SIMULTANEOUS_QUERIES."""
OPEN_READERS = 150
"""So many keep out further readers without the password, and nobody else."""
URI_BYTES = 2**20


@asynccontextmanager
async def serving(
    engine: Engine, host: str, port: int, access: Access
) -> AsyncIterator[tuple[str, int]]:
    """Serve the engine at this address until the context ends; yields the address bound.

    On leaving, queries are stopped at once, and inserts have five seconds to end before their
    client is cut off.
    """
    interface = _Interface(engine, access)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", interface.answer)
    app.on_shutdown.append(interface.stop_reading)
    runner = web.AppRunner(
        app,
        access_log=None,
        auto_decompress=False,
        handler_cancellation=True,
        max_line_size=URI_BYTES,
        max_field_size=URI_BYTES,
        shutdown_timeout=5.0,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield runner.addresses[0][:2]
    finally:
        await runner.cleanup()
        await interface.close()


class _Interface:
    """The handler of all paths."""

    def __init__(self, engine: Engine, access: Access) -> None:
        self._engine = engine
        self._access = access
        self._threads = Threads(engine)
        self._open = 0

    async def stop_reading(self, _: web.Application) -> None:
        self._threads.stop_reading()

    async def close(self) -> None:
        await self._threads.close()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path in {"/ping", "/replicas_status"} or _is_greeting(request):
            return web.Response(text="Ok.\n")
        if request.path != "/":
            return web.Response(status=404, text=f"There is no handle {request.path}\n")
        if request.method not in {hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_POST}:
            return web.Response(status=501, text=f"Unsupported method {request.method}\n")
        try:
            _refuse_other_sites(request)
            may_write = check_access(self._access, request.query, request.headers)
            return await self._counted(request, None if may_write else self._access.bounds)
        except EngineError as error:
            return error_response(error)

    async def _counted(self, request: web.Request, bounds: Bounds | None) -> web.StreamResponse:
        if self._open >= (OPEN_REQUESTS if bounds is None else OPEN_READERS):
            message = f"Too many simultaneous queries. Maximum: {self._open}"
            raise said(TOO_MANY_SIMULTANEOUS_QUERIES, message, "TOO_MANY_SIMULTANEOUS_QUERIES")
        self._open += 1
        try:
            return await self._statement(request, bounds)
        finally:
            self._open -= 1

    async def _statement(self, request: web.Request, bounds: Bounds | None) -> web.StreamResponse:
        body = cast("IO[bytes]", tempfile.SpooledTemporaryFile(SPOOL_BYTES))  # noqa: SIM115 - the worker closes it
        try:
            most = BODY_BYTES if bounds is None else STATEMENT_BYTES
            params = dict(request.query) | await receive(request, body, most)
            query = read_query(request.method, params, request.headers, bounds)
            if asks_hello(query.text or peek(body), params):
                body.close()
                return self._hello(query)
        except BaseException:
            body.close()
            raise
        job = Job(
            query=query,
            body=body,
            body_coding=request.headers.get(hdrs.CONTENT_ENCODING, ""),
            coding=chosen(wants_coding(params, request.headers)),
            tag=secrets.token_hex(8),
        )
        return await self._work(request, job, params.get("query_id") or query.frame.mark)

    def _hello(self, query: Query) -> web.Response:
        block = hello_block(self._engine.host_name, self._engine.version, "UTC")
        fields = head_fields(Head("Native"), query.frame.mark, "UTC", None)
        return web.Response(body=block, headers=fields)

    async def _work(self, request: web.Request, job: Job, query_id: str) -> web.StreamResponse:
        with self._threads.running(job) as pipe:
            opening = await pipe.receive()
            if isinstance(opening, EngineError):
                return error_response(opening)
            assert isinstance(opening, Opening)
            timezone = job.query.frame.settings.get("session_timezone", "UTC")
            fields = head_fields(opening.head, query_id, timezone, job.coding)
            if opening.complete:
                return web.Response(body=opening.first, headers=fields)
            fields["X-ClickHouse-Exception-Tag"] = job.tag
            return await _stream(request, opening.first, pipe, fields)


async def _stream(
    request: web.Request, first: bytes, pipe: Pipe[Item], fields: dict[str, str]
) -> web.StreamResponse:
    response = web.StreamResponse(headers=fields)
    await response.prepare(request)
    await response.write(first)
    while isinstance(piece := await pipe.receive(), bytes):
        await response.write(piece)
    if piece is None:
        await response.write_eof()
    elif request.transport is not None:
        request.transport.close()  # no last chunk: the answer is not whole
    return response


def _is_greeting(request: web.Request) -> bool:
    """A GET of / that asks nothing."""
    reads = request.method in {hdrs.METH_GET, hdrs.METH_HEAD}
    return reads and request.path == "/" and "query" not in request.query


def _refuse_other_sites(request: web.Request) -> None:
    """A page of another site must not read a store that is open to read by a visitor's browser."""
    origin = request.headers.get(hdrs.ORIGIN)
    if origin is not None and urlsplit(origin).netloc != request.host:
        message = f"Requests from pages of other sites are refused: {origin}"
        raise said(ACCESS_DENIED, message, "ACCESS_DENIED")
