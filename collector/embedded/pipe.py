"""From a worker's thread to the event loop: bounded, and the reader may leave."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

Item = TypeVar("Item")
_DEPTH = 4


class Left(Exception):
    """The reader is gone; what is left to send is of no use to anyone."""


class Pipe(Generic[Item]):
    """`send` in the one worker's thread, `receive` and `leave` on the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Item] = asyncio.Queue(_DEPTH)
        self._left = False

    def send(self, item: Item) -> None:
        """Wait until there is room, then put the item in.

        Raises:
            Left: there is no reader.
        """
        if self._left:
            raise Left
        asyncio.run_coroutine_threadsafe(self._queue.put(item), self._loop).result()

    async def receive(self) -> Item:
        """The next item."""
        return await self._queue.get()

    def leave(self) -> None:
        """No more will be received: a sender that waits for room gets it, the next one raises."""
        self._left = True
        while not self._queue.empty():
            self._queue.get_nowait()
