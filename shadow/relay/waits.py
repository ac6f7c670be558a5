"""What a client may take its time for: the rest of a head, the next request, the rest of a body.

One look at a few clients at each tick of the proxy's clock, instead of a timer a request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from shadow.config.operations import Limits
    from shadow.relay.downstream import Downstream
    from shadow.relay.relay import Relay

LOOKS_A_TICK: Final = 512
"""So many clients at a tick, about 0.1 ms."""


class Waits:
    """Looks at all clients again and again, some at a time."""

    def __init__(self, relay: Relay, limits: Limits) -> None:
        self._relay = relay
        self._ahead: list[Downstream] = []
        self.head_ns = int(limits.head_timeout * 1e9)
        self.idle_ns = int(limits.client_idle * 1e9)
        self.upload_ns = int(limits.upload_wait * 1e9)

    def tick(self, now: int) -> None:
        """End what waited too long; the clients' coarse clock goes on."""
        self._relay.clock_ns = now
        if not self._ahead:
            self._ahead = list(self._relay.clients)
        for client in self._ahead[-LOOKS_A_TICK:]:
            self._look(client, now)
        del self._ahead[-LOOKS_A_TICK:]

    def _look(self, client: Downstream, now: int) -> None:
        if client.passage is not None:
            client.passage.upload_lasts(now - self.upload_ns)
            client.look_for_end()
        elif client.head_since:
            if now - client.head_since > self.head_ns:
                client.refuse(408, "the rest of the request's head has not come")
        elif now - client.idle_since > self.idle_ns and not client.full_since:
            client.drain()
