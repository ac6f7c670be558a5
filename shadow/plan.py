"""One sampled request from its head to the last arm's start: what is counted, held and handed on.

It is counted once, when it is settled, so that the equations of the accounting hold at any moment:
`sent` (eligible and sampled), too large (skipped), `drop` (sampled and dropped).
"""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from shadow.capture import Capture, Request

if TYPE_CHECKING:
    from shadow.arm import Arm, ArmRequest
    from shadow.mirror import Mirror

PRIMARY: Final = "primary"


class Plan:
    """See the module. The client's connection drives it; every call may raise, and is guarded."""

    __slots__ = (
        "_arms",
        "_gone_after_ns",
        "_held",
        "_mirror",
        "_primary_ended",
        "_started",
        "capture",
        "request",
        "settled",
    )

    def __init__(self, mirror: Mirror, request: Request, arms: list[Arm], start_ns: int) -> None:
        self._mirror = mirror
        self._arms = arms
        self._gone_after_ns = -1
        self._held = True
        self._primary_ended = False
        self._started: list[ArmRequest] | None = None
        self.settled = False
        self.request = request
        others = max(mirror.totals.open_streams - 1, 0)
        self.capture = Capture(mirror.primary, request, request.arrived_at, start_ns, others)

    def add(self, pieces: list[bytes]) -> bool:
        """More of the request's body; False when it became too large to mirror: let go of it."""
        mirror, request = self._mirror, self.request
        more = len(pieces[0]) if len(pieces) == 1 else sum(map(len, pieces))
        if len(request.body) + more > mirror.request_bytes:
            self._settle()
            mirror.skip(mirror.arms, "body_too_large")
            self._release()
            return False
        if not mirror.held.room(more):
            self.drop("memory")
            return False
        mirror.held.open_bytes += more
        if not request.body and len(pieces) == 1:
            request.body = pieces[0]  # as a rule it comes in one piece
            return True
        if not isinstance(request.body, bytearray):
            request.body = bytearray(request.body)
        for piece in pieces:
            request.body += piece
        return True

    def sent(self) -> None:
        """The request's last byte went on to the primary."""
        if self._mirror.draining:
            self.drop("shutdown")
            return
        self.settled = True
        self._mirror.count_sampled(self._arms)
        self._mirror.perform_soon(self)

    def start_arms(self) -> None:
        """Send each arm its copy; then the primary's record may go, if it is ready."""
        self._started = []
        try:
            for arm in self._arms:
                mirrored = arm.start(self.request)
                if mirrored is not None:
                    self._started.append(mirrored)
                    if self._gone_after_ns >= 0:
                        mirrored.censor(self._gone_after_ns)
        finally:
            if self._primary_ended:
                self._offer()

    def primary_ended(self) -> None:
        """The primary's capture is complete, in whatever way."""
        if self._primary_ended or not self.settled:
            return
        self._primary_ended = True
        if self._started is not None:
            self._offer()

    def client_gone(self) -> None:
        """The client left: both sides end at the same elapsed time."""
        now = monotonic_ns()
        self.capture.end(now, "client_disconnected", "the client closed its connection")
        self._gone_after_ns = now - (self.capture.sent_ns or now)
        for mirrored in self._started or ():
            mirrored.censor(self._gone_after_ns)
        self.primary_ended()

    def never_reached(self) -> None:
        """The whole request came and no connection to the primary could be had."""
        if self.settled:  # a retry's connection failed: the arms have had their copy
            self.primary_ended()
            return
        self.settled = True
        self._mirror.count_sampled(self._arms)
        for arm in self._arms:
            self._mirror.ledger.add(arm.name, "dropped", "primary_unreachable")
        self._started = []
        self.primary_ended()

    def drop(self, reason: str) -> None:
        """The request ended before it was whole, or too late to be mirrored."""
        if self.settled:
            return
        self._settle()
        self._mirror.drop(self._arms, reason)
        self._release()

    def abandon(self) -> None:
        """After a fault of ours: let the window close; what was sampled shows as lost."""
        self._settle()
        self._release()

    def _settle(self) -> None:
        self.settled = self._primary_ended = True

    def _offer(self) -> None:
        self._held = False  # the publisher releases it
        self.capture.leave()
        self._mirror.publisher.offer(self.capture)

    def _release(self) -> None:
        if self._held:
            self._held = False
            self.capture.leave()
            self._mirror.ledger.release(self.request.token)
