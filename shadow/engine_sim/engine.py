"""One engine as an aiohttp application; every write at an absolute moment."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import struct
import time
from collections import Counter
from dataclasses import asdict
from random import Random

import orjson
from aiohttp import web

from shadow.engine_sim import asked, fault, frames
from shadow.engine_sim.dialect import DIALECTS
from shadow.engine_sim.frames import Envelope, Kind
from shadow.engine_sim.plan import Plan, plan
from shadow.engine_sim.settings import Settings

REQUEST_BYTES = 64 * 2**20
REMEMBERED_PROMPTS = 65_536
_RST = struct.pack("ii", 1, 0)
_NOT_MEASURED = ("host", "port", "seed")


class Engine:
    """One engine's memory: how often each prompt came, and who holds a slot."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.dialect = DIALECTS[settings.dialect]
        self.fingerprint = fingerprint(settings)
        self.slots = asyncio.Semaphore(settings.slots or 2**31)
        self.seen: Counter[bytes] = Counter()

    def draw(self, digest: bytes) -> Random:
        """This engine's randomness for one more arrival of a prompt, whatever came between."""
        if len(self.seen) >= REMEMBERED_PROMPTS:
            self.seen.clear()
        self.seen[digest] += 1
        return Random(b"%d %b %d" % (self.settings.seed, digest, self.seen[digest]))  # noqa: S311 seeded on purpose

    def envelope(self, kind: Kind, draw: Random, request_id: str | None) -> Envelope:
        """The constant part of one answer; vLLM builds its id from the client's X-Request-Id."""
        prefix = "chatcmpl" if kind == "chat" else "cmpl"
        known = request_id if self.settings.dialect == "vllm" else None
        name = f"{prefix}-{known or format(draw.getrandbits(64), '016x')}"
        settings, now = self.settings, int(time.time())
        return Envelope(kind, self.dialect, name, now, settings.model, self.fingerprint)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """POST /v1/chat/completions."""
        return await self._complete(request, "chat")

    async def text(self, request: web.Request) -> web.StreamResponse:
        """POST /v1/completions."""
        return await self._complete(request, "text")

    async def models(self, _request: web.Request) -> web.Response:
        """GET /v1/models: the one model."""
        model = {"id": self.settings.model, "object": "model", "owned_by": self.settings.dialect}
        return _json(orjson.dumps({"object": "list", "data": [model]}))

    async def health(self, _request: web.Request) -> web.Response:
        """GET /health: 200, empty, as vLLM's."""
        return web.Response()

    async def _complete(self, request: web.Request, kind: Kind) -> web.StreamResponse:
        arrived = time.monotonic()
        try:
            wanted = asked.read(orjson.loads(await request.read()), kind, self.settings)
        except orjson.JSONDecodeError:
            return _json(frames.error(self.dialect, 400, "BadRequestError", "not JSON"), 400)
        except asked.BadRequest as bad:
            return _json(frames.error(self.dialect, bad.status, bad.type_, str(bad)), bad.status)
        draw = self.draw(wanted.digest)
        chosen = fault.choose(self.settings, draw)
        envelope = self.envelope(kind, draw, request.headers.get("x-request-id"))
        planned = plan(wanted, self.settings, envelope, draw, chosen)
        if self.slots.locked():  # waiting counts as the answer's, not as the token's
            async with self.slots:
                return await _answer(request, planned, time.monotonic())
        async with self.slots:
            return await _answer(request, planned, arrived)


def app(settings: Settings) -> web.Application:
    """The engine as an aiohttp application."""
    engine = Engine(settings)

    async def name_server(_request: web.Request, response: web.StreamResponse) -> None:
        response.headers["Server"] = engine.dialect.server

    application = web.Application(client_max_size=REQUEST_BYTES)
    application.on_response_prepare.append(name_server)
    application.router.add_post("/v1/chat/completions", engine.chat)
    application.router.add_post("/v1/completions", engine.text)
    application.router.add_get("/v1/models", engine.models)
    application.router.add_get("/health", engine.health)
    return application


def fingerprint(settings: Settings) -> str:
    """The same for engines that differ in address and seed only, as two replicas do."""
    measured = {k: v for k, v in asdict(settings).items() if k not in _NOT_MEASURED}
    digest = hashlib.blake2b(orjson.dumps(measured, option=orjson.OPT_SORT_KEYS), digest_size=4)
    return f"engine-sim-{settings.dialect}-{digest.hexdigest()}"


async def _answer(request: web.Request, planned: Plan, start: float) -> web.StreamResponse:
    """Perform a plan. A client that leaves cancels it."""
    if not planned.streamed and planned.end == "whole":
        await _until(start + planned.offsets_s[0])
        return _json(planned.groups[0][0], planned.status)
    response = web.StreamResponse()
    response.content_type = "text/event-stream" if planned.streamed else "application/json"
    response.content_length = planned.length
    await response.prepare(request)
    for offset, group in zip(planned.offsets_s, planned.groups, strict=True):
        await _until(start + offset)
        for part in group:
            await response.write(part)
    if planned.end != "whole":
        _break(request, planned)
    return response


async def _until(moment: float) -> None:
    await asyncio.sleep(max(0.0, moment - time.monotonic()))


def _break(request: web.Request, planned: Plan) -> None:
    """Close the connection before the message's end: by RST, or by FIN."""
    transport = request.transport
    if transport is None:
        return
    if planned.end == "reset":
        peer = transport.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST)
        transport.abort()
    else:
        transport.close()


def _json(body: bytes, status: int = 200) -> web.Response:
    headers = {"Retry-After": "1"} if status == 429 else None
    return web.Response(body=body, status=status, content_type="application/json", headers=headers)
