"""With the kill switch on, what is open ends too: a few in one turn of the loop."""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, Protocol

from shadow.mirror.plans import TURN_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

MOST_A_TURN: Final = 25
"""What ends has its aftermath in the loop's next turn, a socket's end or an attempt to connect that
is given up: 0.1 ms each, and more than the end itself."""


class Open(Protocol):
    """A copy that is under way, or waits for its turn."""

    def switch_off(self) -> None:
        """End it now, dropped `switched_off`; nothing, where it has ended."""


class Cuts:
    """See the module. `failed` is told of an exception; it keeps no other copy open."""

    def __init__(self, places: list[Collection[Open]], failed: Callable[[Exception], None]) -> None:
        self._places, self._failed = places, failed
        self._due: deque[Open] = deque()

    def watch(self, place: Collection[Open]) -> None:
        """What stands there is open too."""
        self._places.append(place)

    def pass_by(self) -> None:
        """The kill switch is on: end all that is open, half a millisecond at a time."""
        if self._due:  # a turn is asked for
            return
        for place in self._places:
            self._due.extend(place)
        self._turn()

    def _turn(self) -> None:
        due, until_ns = self._due, monotonic_ns() + TURN_NS
        for _ in range(min(MOST_A_TURN, len(due))):
            try:
                due.popleft().switch_off()
            except Exception as error:  # noqa: BLE001 of mirror code; the others end all the same
                self._failed(error)
            if monotonic_ns() > until_ns:
                break
        if due:
            asyncio.get_running_loop().call_soon(self._turn)
