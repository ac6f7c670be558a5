"""What the mirror holds in memory, against `limits.mirror_bytes`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shadow.ports import Publisher


class Held:
    """Bytes of request bodies and open captures; what was offered is the publisher's to count.

    Changed on the event loop only, in steps: whoever keeps bytes adds what it may keep before it
    keeps them, and takes the same away when the loop is done with them.
    """

    __slots__ = ("_publisher", "limit_bytes", "open_bytes")

    def __init__(self, limit_bytes: int = sys.maxsize, publisher: Publisher | None = None) -> None:
        self.limit_bytes = limit_bytes
        self.open_bytes = 0
        self._publisher = publisher

    def room(self, more_bytes: int) -> bool:
        """Whether so many more may be held."""
        queued = 0 if self._publisher is None else self._publisher.queued_bytes
        return self.open_bytes + queued + more_bytes <= self.limit_bytes
