"""How a passage ends: what the client, the primary's connection, its pool and the mirror are told.

The layers of one object, from here up: `Ends`, `upload.Upload` (the request's way to the primary),
`passage.Passage` (the answer's way back). Each calls only what lies below it.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING

from shadow.relay.framing import request_framing
from shadow.relay.owner import Owner
from shadow.relay.refusal import refusal

if TYPE_CHECKING:
    from shadow.relay.downstream import Downstream
    from shadow.relay.head import RequestHead
    from shadow.relay.relay import Relay
    from shadow.relay.upstream import Upstream


class Ends(Owner):
    """See the module. Both messages' state, and what becomes of it."""

    __slots__ = (
        "_answer_ended",
        "_answer_started",
        "_client",
        "_close_after",
        "_end_unsaid",
        "_head",
        "_late_bytes",
        "_plan",
        "_relay",
        "_retried",
        "_sent",
        "_sent_bytes",
        "_upload",
        "_waiting",
        "connection",
        "tunnel",
    )

    def __init__(self, client: Downstream, relay: Relay, head: RequestHead, now: int) -> None:
        relay.totals.requests += 1
        relay.totals.open_streams += 1
        self._client = client
        if client.full_since:
            client.full_since = now  # until here it held the answer before this one
        self._relay = relay
        self._head = head
        self._plan = (
            relay.plan(head, now) if head.method in relay.mirrored or head.upgrade else None
        )
        self._upload = request_framing(head.length, relay.limits.header_bytes)
        self._answer_started = self._answer_ended = self._close_after = self._retried = False
        self._end_unsaid = False
        self._late_bytes = self._sent_bytes = 0
        self._sent: list[bytes] | None = None
        self._waiting: list[bytes] = []
        self.connection: Upstream | None = None
        self.tunnel = False

    def _finish(self) -> None:
        """Both messages ended."""
        connection, self.connection = self.connection, None
        assert connection is not None
        self._relay.pool.release(connection)
        self._over(whole=True)
        self._client.passed(keep=not self._close_after)

    def _give_up_upload(self) -> None:
        self._leave()
        self._over(whole=False)
        self._client.linger()

    def _gateway_error(self, reason: str, kind: str) -> None:
        """502: the primary cannot be reached, or its answer cannot be read."""
        said = refusal(502, reason, head=self._head.method == b"HEAD", kind=kind)
        self._client.transport.write(said)
        self._client.linger()

    def _leave(self) -> None:
        """Let the upstream see that its client is gone; a websocket's last bytes still go out."""
        connection, self.connection = self.connection, None
        if connection is None:
            self._relay.pool.give_up(self)
        elif self.tunnel:
            connection.close()
        else:
            connection.abort()

    def _over(self, *, whole: bool, publish: bool = True) -> None:
        """The passage has ended; its plan is told, unless the caller does it."""
        self._relay.totals.open_streams -= 1
        plan, self._plan = self._plan, None
        self._client.passage = None
        self._upload = None
        if plan is None:
            return
        if self._client.full_since:
            plan.capture.client_wait_ns += monotonic_ns() - self._client.full_since
        if publish and whole:
            self._relay.primary_ended(plan)
        elif publish:
            self._relay.dropped(plan)
