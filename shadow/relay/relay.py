"""What all connections of one worker share, and the guard between clients and mirror code.

Rule: no exception of the mirror reaches a client. Each call into a plan goes through here.
"""

from __future__ import annotations

from functools import partial
from time import monotonic, monotonic_ns
from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from shadow.relay.descriptors import Descriptors
from shadow.relay.passage import Passage
from shadow.relay.stale import RetryStale, may_be_retried

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from shadow.config.operations import Limits
    from shadow.publish.metrics import Totals
    from shadow.relay.carried import Carry
    from shadow.relay.downstream import Downstream
    from shadow.relay.forwarding import Forwarding
    from shadow.relay.head import RequestHead
    from shadow.relay.mirrored import Mirror, Plan
    from shadow.relay.pool import Pool

P = TypeVar("P", bound="Plan")

TELL_S: Final = 10.0
"""No more than a line in so many seconds."""

_log = structlog.get_logger("shadow.relay")


class Relay:
    """See the module."""

    def __init__(
        self,
        pool: Pool,
        mirror: Mirror,
        limits: Limits,
        totals: Totals,
        retry_stale: RetryStale,
        stateless_paths: Container[bytes],
        mirrored: Container[bytes],
    ) -> None:
        self.pool = pool
        self.mirror = mirror
        self.limits = limits
        self.totals = totals
        self.retry_stale: RetryStale = retry_stale
        self.stateless_paths = stateless_paths
        self.mirrored = mirrored
        """Requests of other methods are none of the mirror's, unless they ask for a websocket."""
        self.clients: set[Downstream] = set()
        self.descriptors = Descriptors()
        self.draining = False
        self.forwarding: Forwarding | None = None
        """What the primary is told of clients; None: what they sent."""
        self.carry: Carry = Passage
        """What becomes of a request: it passes, or is tapped."""
        self.clock_ns = monotonic_ns()
        """The proxy's coarse clock, for what need not be stamped."""
        self._told_at = self._scarce_told_at = -TELL_S
        self.client_closed: Callable[[], None] = lambda: None
        """Called after each client's end; the drain waits by it."""

    def unreachable(self, reason: str) -> None:
        """No connection to the primary: counted, and the operator, not the client, is told why."""
        self.totals.connect_failed += 1
        self.totals.last_connect_error = reason
        now = monotonic()
        if now - self._told_at > TELL_S:
            self._told_at = now
            _log.warning("no connection to the primary", reason=reason)

    def out_of_descriptors(self) -> None:
        """A client was sent away for them: counted, and the operator is told what raises them."""
        self.totals.no_descriptor += 1
        now = monotonic()
        if now - self._scarce_told_at > TELL_S:
            self._scarce_told_at = now
            _log.warning(
                "no file descriptors left: new connections get 503",
                limit=self.descriptors.limit,
                open_connections=self.totals.open_connections,
                way_out="raise ulimit -n (systemd: LimitNOFILE), run more workers,"
                " or lower limits.client_idle",
            )

    def may_retry(self, head: RequestHead) -> bool:
        """Whether to keep the request at hand for a stale connection's retry."""
        return may_be_retried(head, self.retry_stale, self.stateless_paths)

    def plan(self, head: RequestHead, now: int) -> Plan | None:
        """What the mirror does with the request, decided at once."""
        try:
            return self.mirror.decide(head, now)
        except Exception as error:  # noqa: BLE001 the guard
            self.mirror.failed(error)
            return None

    def keep(self, plan: P, pieces: list[bytes]) -> P | None:
        """More of the body for the arms; None when the mirror lets go of the request."""
        try:
            return plan if plan.add(pieces) else None
        except Exception as error:  # noqa: BLE001 the guard
            self.mirror.failed(error, plan)
            return None

    def started(self, start: Callable[[P], None], plan: P) -> bool:
        """A tapped request is on its way to the replica; False after a fault of ours."""
        try:
            start(plan)
        except Exception as error:  # noqa: BLE001 the guard
            self.mirror.failed(error, plan)
            return False
        return True

    def sent(self, plan: Plan) -> None:
        """The last byte went on."""
        try:
            plan.sent()
        except Exception as error:  # noqa: BLE001 the guard
            self.mirror.failed(error, plan)

    def primary_ended(self, plan: Plan) -> None:
        """The primary's capture is complete."""
        try:
            plan.primary_ended()
        except Exception as error:  # noqa: BLE001 the guard
            self.mirror.failed(error, plan)

    def client_gone(self, plan: Plan, *, whole: bool) -> None:
        """The client left."""
        self._unless_partial(plan, plan.client_gone, whole=whole)

    def never_reached(self, plan: Plan, *, whole: bool) -> None:
        """No connection to the primary, whether or not the request came whole."""
        reason = "primary_unreachable"
        self._unless_partial(plan, partial(plan.never_reached, reason), whole=whole, reason=reason)

    def gone_early(self, plan: Plan) -> None:
        """Its whole request had come when the client left, and the primary's connection had not."""
        self._unless_partial(plan, partial(plan.never_reached, "request_incomplete"), whole=True)

    def dropped(self, plan: Plan) -> None:
        """The client's request never came whole."""
        self._unless_partial(plan, plan.primary_ended, whole=False)

    def _unless_partial(
        self,
        plan: Plan,
        call: Callable[[], None],
        *,
        whole: bool,
        reason: str = "request_incomplete",
    ) -> None:
        try:
            if whole:
                call()
            else:
                plan.drop(reason)
        except Exception as error:  # noqa: BLE001 the guard
            self.mirror.failed(error, plan)
