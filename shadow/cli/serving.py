"""An aiohttp application beside a part that is not asynchronous: a loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import socket
from typing import TYPE_CHECKING

from shadow.config import ConfigError
from shadow.config.units import Address
from shadow.control import bind, serve_health

if TYPE_CHECKING:
    from aiohttp import web


@contextmanager
def serving(
    address: Address | None, app: Callable[[], web.Application], key: str
) -> Iterator[None]:
    """Serve while the block runs; without an address, nothing.

    Args:
        address: where to listen.
        app: makes the application; called in the serving thread.
        key: the configuration's key of the address, for the error.

    Raises:
        ConfigError: the address cannot be listened on.
    """
    if address is None:
        yield
        return
    try:
        bound = bind(address)
    except OSError as error:
        raise ConfigError(f"{key}: {error}") from error
    over = threading.Event()
    thread = threading.Thread(target=asyncio.run, args=(_serve(app, bound, over),), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(5.0)


async def _serve(app: Callable[[], web.Application], bound: socket, over: threading.Event) -> None:
    runner = await serve_health(app(), bound)
    try:
        await asyncio.to_thread(over.wait)
    finally:
        await runner.cleanup()
