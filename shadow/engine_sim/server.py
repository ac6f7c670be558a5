"""The process around one engine: listen, say where, end at once when told to."""

from __future__ import annotations

import asyncio
import errno
import signal
import sys

import uvloop
from aiohttp import web

from shadow.engine_sim.engine import app
from shadow.engine_sim.settings import Settings


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT, which end it at once.

    Returns:
        0, or 2 where the address cannot be listened on (one line on stderr says why).
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(settings))


async def _serve(settings: Settings) -> int:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    runner = web.AppRunner(
        app(settings), access_log=None, handler_cancellation=True, shutdown_timeout=0.05
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.host, settings.port, backlog=1024).start()
        _say(settings, runner.addresses[0][1])
        await stop.wait()
    except OSError as error:
        sys.stderr.write(_refused(settings, error))
        return 2
    finally:
        await runner.cleanup()
    return 0


def _say(settings: Settings, port: int) -> None:
    where = f"http://{settings.host}:{port}"
    sys.stdout.write(f"engine-sim: listening on {where} ({settings.model}, {settings.dialect})\n")
    sys.stdout.flush()


def _refused(settings: Settings, error: OSError) -> str:
    where = f"{settings.host}:{settings.port}"
    if error.errno == errno.EADDRINUSE:
        return f"engine-sim: {where} is taken; choose another port, or 0 for a free one\n"
    return f"engine-sim: cannot listen on {where}: {error.strerror or error}\n"
