"""Plans that wait for their turn of the loop: to start their arms, or for a look at their body."""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shadow.plan import Plan

TURN_NS: Final = 500_000
"""So long at a time arms are started; one start takes 0.02 to 0.1 ms."""


class Plans:
    """See the module. `failed` is told of an exception, and of the plan that it ended."""

    def __init__(self, failed: Callable[[Exception, Plan], None]) -> None:
        self._failed = failed
        self._ready: deque[Plan] = deque()
        self._routing: deque[Plan] = deque()

    def __iter__(self) -> Iterator[Plan]:
        return iter((*self._ready, *self._routing))

    def perform_soon(self, plan: Plan) -> None:
        """Start the arms once the loop has written what the primary was sent."""
        if not self._ready:
            asyncio.get_running_loop().call_soon(self._perform)
        self._ready.append(plan)

    def _perform(self) -> None:
        """For half a millisecond: after a burst of requests it is the primary's turn again."""
        ready, until_ns = self._ready, monotonic_ns() + TURN_NS
        while ready:
            plan = ready[0]
            try:
                if not plan.perform():
                    self._look(plan)
            except Exception as error:  # noqa: BLE001 the other plans go on; this one is counted
                self._failed(error, plan)
            ready.popleft()
            if monotonic_ns() > until_ns:
                break
        if ready:
            asyncio.get_running_loop().call_soon(self._perform)

    def _look(self, plan: Plan) -> None:
        """Look at a body: at once for one step, where no other waits; as a rule that is all."""
        if self._routing or not plan.go_on():
            self._routing.append(plan)
            if len(self._routing) == 1:
                asyncio.get_running_loop().call_soon(self._look_on)

    def _look_on(self) -> None:
        """One step of one body a turn of the loop, first come, first served."""
        plan = self._routing[0]
        try:
            done = plan.go_on()
        except Exception as error:  # noqa: BLE001 as above
            self._failed(error, plan)
            done = True
        if done:
            self._routing.popleft()
        if self._routing:
            asyncio.get_running_loop().call_soon(self._look_on)
