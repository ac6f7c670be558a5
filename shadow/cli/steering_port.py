"""The control port's part of steering: what holds, pause, resume, rates."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import structlog
from aiohttp import web

from shadow.cli.recording import Connect, record
from shadow.config import Config
from shadow.steering.followed import MIRROR_PATH
from shadow.steering.steer import Unfit, steer
from shadow.steering.told import NotSteering
from shadow.steering.told_file import change, read

RECORD_S = 1.0
"""So long an answer waits for the store."""

_log = structlog.get_logger("shadow.mirror")


def add_mirror(app: web.Application, file: Path, config: Config, connect: Connect) -> None:
    """GET /api/v1/mirror; POST /api/v1/mirror/pause, /resume, /rate; behind the app's own guard.

    What is said holds at once, whether or not the store can be told of it.
    """
    port = _Port(file, config, connect)
    app.router.add_get(MIRROR_PATH, port.state)
    for action in ("pause", "resume", "rate"):
        app.router.add_post(f"{MIRROR_PATH}/{action}", port.hears(action))


class _Port:
    def __init__(self, file: Path, config: Config, connect: Connect) -> None:
        self._file, self._experiment, self._connect = file, config.experiment, connect
        self._rates = {name: arm.sample for name, arm in config.arms.items()}

    async def state(self, _request: web.Request) -> web.Response:
        try:
            told = read(self._file)
        except NotSteering as error:
            return _refusal(str(error), 500)
        return web.json_response(told.document() | {"experiment": self._experiment})

    def hears(self, action: str) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def post(request: web.Request) -> web.Response:
            if request.content_type != "application/json":  # a browser's page cannot send that
                return _refusal("send Content-Type: application/json", 415)
            try:
                return await self._said(action, await _said_in(request))
            except ValueError as error:
                return _refusal(str(error), 400)
            except OSError as error:
                return _refusal(f"it cannot be kept: {error}", 500)

        return post

    async def _said(self, action: str, said: Mapping[str, Any]) -> web.Response:
        told = await asyncio.to_thread(  # another who changes it may hold it
            change, self._file, lambda told: steer(told, action, said, self._rates)
        )
        why = await _soon(lambda: record(self._connect, self._experiment, action, said))
        return web.json_response(told.document() | {"recorded": not why})


async def _said_in(request: web.Request) -> dict[str, Any]:
    """The body's JSON object.

    Raises:
        ValueError: it is none.
    """
    try:
        said = await request.json()
    except RecursionError:
        raise Unfit("the JSON is nested too deep") from None
    if not isinstance(said, dict):
        raise Unfit("not a JSON object")
    return said


async def _soon(recorded: Callable[[], str]) -> str:
    """Why it was not recorded within a second, logged; a slow store goes on in its thread."""
    try:
        why = await asyncio.wait_for(asyncio.shield(asyncio.to_thread(recorded)), RECORD_S)
    except TimeoutError:
        why = f"the store takes more than {RECORD_S:g} s"
    if why:
        _log.warning("what was said of mirroring is not in the store", why=why)
    return why


def _refusal(why: str, status: int) -> web.Response:
    return web.json_response({"error": why}, status=status)
