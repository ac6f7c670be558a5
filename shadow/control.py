"""The health port: is the process alive, is the way out open, what has been counted.

The proxy's runs on its loop; what it does there is small, and nothing waits for anything.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from typing import Protocol

from aiohttp import hdrs, web

from shadow.config.units import Address

QUEUE_FULL_SHARE = 0.9
BACKLOG = 64


class WayOut(Protocol):
    """What readiness asks: `shadow.publish.publisher.Publisher`."""

    @property
    def ready(self) -> bool:
        """The stream took the last record."""

    @property
    def last_error(self) -> str | None:
        """Why not, in one line."""

    @property
    def queued_bytes(self) -> int:
        """What waits."""

    @property
    def queue_bytes(self) -> int:
        """What may wait."""


def bind(address: Address) -> socket.socket:
    """A socket on the address, so that a port that is taken is known before anything starts.

    Raises:
        OSError: one line: the address and the reason.
    """
    try:
        family, *_, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise OSError(f"{address}: {error.strerror}") from error
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(place)
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise OSError(f"{address}: {why_not(error)}") from error
    return bound


def why_not(error: OSError) -> str:
    """Why an address cannot be listened on, in the system's words, which are short; and the way
    out where somebody has it. A name's look-up has numbers of its own.
    """
    number = error.errno or 0
    if number == errno.EADDRINUSE:
        return f"{os.strerror(number)}; stop what listens there, or choose another port"
    return os.strerror(number) if number > 0 else error.strerror or str(error)


def readiness(
    way_out: WayOut, *, listening: bool, away: str | None = None, fault: str = ""
) -> tuple[int, dict[str, object]]:
    """(status, JSON): 200, or 503 with the first reason why captures would not get out.

    `away` is why they wait on this machine meanwhile, where they do; `fault` which change of
    mirroring may not be heard, the last reason.
    """
    reason = None
    if not listening:
        reason = "the proxy is not listening"
    elif not way_out.ready:
        reason = f"the stream is not connected: {way_out.last_error or 'the sender has ended'}"
    elif away is not None:
        reason = f"records wait on disk: {away}"
    elif way_out.queued_bytes > QUEUE_FULL_SHARE * way_out.queue_bytes:
        reason = "the queue is full"
    elif fault:
        reason = f"a change may not be heard, a fault of shadow: {fault}"
    return (200 if reason is None else 503), {
        "ready": reason is None,
        "reason": reason,
        "queue_bytes": way_out.queued_bytes,
        "queue_limit_bytes": way_out.queue_bytes,
    }


Ready = Callable[[], tuple[int, dict[str, object]]]
"""A status, 200 or 503, and what /readyz says beside it."""
Render = Callable[[str], tuple[bytes, str]]
"""From a request's Accept to (body, content type) of /metrics."""


def health_app(ready: Ready, render: Render) -> web.Application:
    """/healthz, /readyz and /metrics: of the proxy, the collector, the analysis."""

    async def healthz(_request: web.Request) -> web.Response:
        return web.json_response({"alive": True})

    async def readyz(_request: web.Request) -> web.Response:
        status, answer = ready()
        return web.json_response(answer, status=status)

    async def metrics(request: web.Request) -> web.Response:
        body, content_type = render(request.headers.get(hdrs.ACCEPT, ""))
        return web.Response(body=body, headers={hdrs.CONTENT_TYPE: content_type})

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", metrics)
    return app


async def serve_health(app: web.Application, bound: socket.socket) -> web.AppRunner:
    """Serve the app on the socket; `await runner.cleanup()` ends it."""
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    await web.SockSite(runner, bound).start()
    return runner
