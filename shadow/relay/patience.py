"""A timeout over what the loop itself does: time in which the loop stood still does not count."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Final

STEPS: Final = 8
_MOST_STEPS: Final = 10 * STEPS
"""A loop that is always late does not make it endless."""


@asynccontextmanager
async def patience(seconds: float) -> AsyncIterator[None]:
    """`asyncio.timeout(seconds)`, counted in steps; one that comes late by itself counts not.

    A timer runs before the sockets are looked at. After a stall, a plain timeout would end a
    connection that has been ready for long.

    Raises:
        TimeoutError: the block has not ended in time.
    """
    loop = asyncio.get_running_loop()
    step = seconds / STEPS
    counted = taken = 0
    timer: asyncio.TimerHandle
    async with asyncio.timeout(None) as limit:

        def tick(due: float) -> None:
            nonlocal counted, taken, timer
            now = monotonic()
            taken += 1
            counted += now - due < step
            if counted < STEPS and taken < _MOST_STEPS:
                timer = loop.call_later(step, tick, now + step)
            else:
                limit.reschedule(loop.time())

        timer = loop.call_later(step, tick, monotonic() + step)
        try:
            yield
        finally:
            timer.cancel()
