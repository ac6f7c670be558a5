"""The arms' deadlines: what is beyond one is ended, a few in one turn of the loop."""

from __future__ import annotations

import asyncio
from time import monotonic_ns
from typing import TYPE_CHECKING

from shadow.mirror.plans import TURN_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shadow.mirror.arm import Arm


class Deadlines:
    """See the module. `failed` is told of an exception."""

    def __init__(self, arms: Sequence[Arm], failed: Callable[[Exception], None]) -> None:
        self._arms, self._failed = arms, failed
        self._called = False

    def pass_by(self, now: int) -> None:
        """It is `now` (monotonic, ns): end what should have ended, half a millisecond at a time.

        A hundred at once would hold the loop for 3 ms.
        """
        if not self._called:
            self._turn(now)

    def _turn(self, now: int) -> None:
        self._called = False
        until_ns = monotonic_ns() + TURN_NS
        try:
            left = any(arm.expire(now, until_ns) for arm in self._arms)
        except Exception as error:  # noqa: BLE001 of mirror code, kept from the clock
            self._failed(error)
            return
        if left:
            self._called = True
            asyncio.get_running_loop().call_soon(self._turn, now)
