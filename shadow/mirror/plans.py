"""Plans that wait for their turn of the loop: to start their arms, or for a look at their body."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shadow.mirror.cuts import Open

TURN_NS: Final = 500_000
"""So long at a time arms are started; one start takes 0.02 to 0.1 ms."""


class Waiting(Protocol):
    """What waits: `shadow.mirror.plan.Plan`."""

    __slots__ = ()

    @abstractmethod
    def perform(self) -> bool:
        """Decide what is due; False where its body has to be looked at first."""

    @abstractmethod
    def start_next(self) -> bool:
        """Start one copy that is due; whether there are more."""

    @abstractmethod
    def go_on(self) -> bool:
        """Look at its body for a step; True once what is due is decided."""

    @abstractmethod
    def give_up(self, reason: str) -> None:
        """Start nothing any more, and count it as dropped."""

    @abstractmethod
    def abandon(self) -> None:
        """A fault of ours has ended it."""


class Plans:
    """See the module. `failed` is told of an exception, and of the plan that it ended."""

    def __init__(self, failed: Callable[[Exception, Waiting], None]) -> None:
        self._failed = failed
        self._ready: deque[Waiting] = deque()
        self._routing: deque[Waiting] = deque()
        self.late: dict[Open, None] = {}
        """Those with copies that wait for the end of the primary's answer."""

    def __iter__(self) -> Iterator[Waiting]:
        return iter((*self._ready, *self._routing))

    def perform_soon(self, plan: Waiting) -> None:
        """Start the arms once the loop has written what the primary was sent."""
        if not self._ready:
            asyncio.get_running_loop().call_soon(self._perform)
        self._ready.append(plan)

    def _perform(self) -> None:
        """For half a millisecond: after a burst of requests, or between a request's many copies, it
        is the primary's turn again. What is asked for meanwhile (by a replica that was sent its
        request just now) waits for the next turn: the loop writes first.
        """
        ready, until_ns = self._ready, monotonic_ns() + TURN_NS
        for _ in range(len(ready)):
            if not self._performed(ready[0], until_ns):
                break
            ready.popleft()
            if monotonic_ns() > until_ns:
                break
        if ready:
            asyncio.get_running_loop().call_soon(self._perform)

    def _performed(self, plan: Waiting, until_ns: int) -> bool:
        """False where the time was over before the last of its copies had started."""
        try:
            if not plan.perform() and not self._looked(plan):
                return True
            while plan.start_next():
                if monotonic_ns() > until_ns:
                    return False
        except Exception as error:  # noqa: BLE001 the other plans go on; this one is counted
            self._failed(error, plan)
        return True

    def _looked(self, plan: Waiting) -> bool:
        """Look at a body: at once for one step, where no other waits; as a rule that is all."""
        if not self._routing and plan.go_on():
            return True
        self._routing.append(plan)
        if len(self._routing) == 1:
            asyncio.get_running_loop().call_soon(self._look_on)
        return False

    def _look_on(self) -> None:
        """One step of one body a turn of the loop, first come, first served."""
        plan = self._routing[0]
        try:
            done = plan.go_on()
            if done:
                self.perform_soon(plan)
        except Exception as error:  # noqa: BLE001 as above
            self._failed(error, plan)
            done = True
        if done:
            self._routing.popleft()
        if self._routing:
            asyncio.get_running_loop().call_soon(self._look_on)
