"""Whose bytes are too many for one turn of the loop waits here for the next.

So no peer, however odd its answers or uploads, holds the loop for longer than a few slices: a slice
is what one connection does at a time, bounded to about 0.2 ms (`framing.SLICE_CHUNKS`,
`upstream.SLICE_HEADS`, one read).
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

SLICES_A_TURN: Final = 4


class Sliced(Protocol):
    """A connection whose arrivals may take several turns."""

    def go_on(self) -> None:
        """The next slice of what waits."""


class Turns:
    """Connections that wait for their next slice, first come, first served."""

    def __init__(self) -> None:
        self._waiting: deque[Sliced] = deque()
        self._called = False

    def wait(self, connection: Sliced) -> None:
        """Call `connection.go_on()` in a later turn of the loop."""
        self._waiting.append(connection)
        if not self._called:
            self._called = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        try:
            for _ in range(min(SLICES_A_TURN, len(self._waiting))):
                self._waiting.popleft().go_on()
        finally:
            self._called = bool(self._waiting)
            if self._called:
                asyncio.get_running_loop().call_soon(self._turn)
