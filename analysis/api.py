"""Reports and verdicts over HTTP, for rollouts and people: read only.

A verdict is always 200 with the verdict inside: a rollout controller must be able to tell "reject"
from "the service is away".
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any

from aiohttp import hdrs, web

from analysis.answers import report, stored
from analysis.gate import USAGE, gate
from analysis.recorded import experiments, recorded
from analysis.settings import Settings

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

Connect = Callable[[], "Client"]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def api(settings: Settings, connect: Connect, token: str = "") -> web.Application:
    """GET /api/v1/experiments, …/{name}/report, …/{name}/verdict?candidate=.

    Args:
        settings: the experiment that is judged now; of others, what was written is read.
        connect: makes a client of the store, for one request.
        token: what `Authorization: Bearer` must show; empty: nobody is asked.
    """

    def ask(read: Callable[[Client], Any]) -> Any:
        with closing(connect()) as client:
            return read(client)

    async def listed(_request: web.Request) -> web.Response:
        return web.json_response({"experiments": await asyncio.to_thread(ask, experiments)})

    async def compared(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        found = await asyncio.to_thread(ask, lambda client: _report(client, settings, name))
        if found is None:
            return web.json_response({"error": f"nothing is known of {name}"}, status=404)
        return web.json_response(found)

    async def judged(request: web.Request) -> web.Response:
        name, candidate = request.match_info["name"], request.query.get("candidate")
        try:
            found = await asyncio.to_thread(ask, lambda client: _written(client, settings, name))
            why = "no verdict was written yet"
        except Exception as away:  # noqa: BLE001 whatever keeps us from the store, it is a hold
            found, why = None, f"the store cannot be read: {' '.join(str(away).split())[:300]}"
        known = settings.candidates if name == settings.experiment else None
        answer = gate(found, candidate, "json", why, known=known, experiment=name)
        if answer.code == USAGE:  # always a verdict: what cannot be answered holds
            held = {"experiment": name, "candidate": candidate, "verdict": "hold"}
            return web.json_response({**held, "reason": answer.line})
        return web.json_response(json.loads(answer.line))

    app = web.Application(middlewares=[_guard(token), _errors])
    app.router.add_get("/api/v1/experiments", listed)
    app.router.add_get("/api/v1/experiments/{name}/report", compared)
    app.router.add_get("/api/v1/experiments/{name}/verdict", judged)
    return app


def _report(client: Client, settings: Settings, name: str) -> dict[str, Any] | None:
    ours = name == settings.experiment
    return report(client, settings) if ours else recorded(client, name)


def _written(client: Client, settings: Settings, name: str) -> dict[str, Any] | None:
    ours = name == settings.experiment
    return stored(client, settings) if ours else recorded(client, name)


def _guard(token: str) -> Any:
    """Refuse whoever does not show the token; compared in constant time."""
    wanted = f"Bearer {token}".encode()

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        shown = request.headers.get(hdrs.AUTHORIZATION, "").encode("utf-8", "surrogateescape")
        if token and not hmac.compare_digest(shown, wanted):
            return web.json_response(
                {"error": "show the token: Authorization: Bearer …"},
                status=401,
                headers={hdrs.WWW_AUTHENTICATE: "Bearer"},
            )
        return await handler(request)

    return guard


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A store that is away is 503 with the reason, not a trace."""
    try:
        return await handler(request)
    except web.HTTPException:
        raise
    except Exception as error:  # noqa: BLE001 the caller's client has its own errors
        reason = " ".join(str(error).split())[:300]
        return web.json_response({"error": f"the store cannot be read: {reason}"}, status=503)
