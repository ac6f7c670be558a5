"""When the process runs out of file descriptors: seen by the number of a new connection.

The system gives the lowest free number. At the very limit the event loop would close connections
without a byte, and the primary could not be connected to; so the last ones are kept for it.
"""

from __future__ import annotations

import resource
from functools import cached_property
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

MOST_KEPT: Final = 64


class Descriptors:
    """Of this process. Its limit is read at the first connection: the start may raise it."""

    @cached_property
    def limit(self) -> int:
        """How many it may have open."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return 2**31 if soft == resource.RLIM_INFINITY else soft

    @cached_property
    def _kept_from(self) -> int:
        return self.limit - min(MOST_KEPT, self.limit // 8)

    def used_up(self, transport: asyncio.Transport) -> bool:
        """Whether the connection has one of those that are kept."""
        sock = transport.get_extra_info("socket")
        return sock is not None and sock.fileno() >= self._kept_from
