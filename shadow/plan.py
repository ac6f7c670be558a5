"""One sampled request from its head to the last arm's start: what is counted, held and handed on.

It is counted once, when it is known what becomes of it, so that the equations of the accounting
hold at any moment: its copies (eligible and sampled, one each), why there are none (skipped), or
that the request never came to that (sampled and dropped).
"""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING, Final
from weakref import ref

from shadow.body.copy import AS_IT_CAME, Copy
from shadow.capture import Capture
from shadow.routing import NoRoom
from shadow.switch import OFF

if TYPE_CHECKING:
    from shadow.arm import Arm
    from shadow.arm_request import ArmRequest
    from shadow.body.scan import Steps
    from shadow.mirror import Mirror
    from shadow.request import Request
    from shadow.routing import Route

PRIMARY: Final = "primary"
_GOING_ON: Final = frozenset({"", "shadow_off"})
"""A request of a window without mirroring still has the primary's record."""


class Plan:
    """See the module. The client's connection drives it; every call may raise, and is guarded."""

    __slots__ = (
        "_arms",
        "_counted",
        "_gone_after_ns",
        "_held",
        "_late",
        "_mirror",
        "_primary_ended",
        "_started",
        "_steps",
        "capture",
        "request",
        "settled",
    )

    def __init__(self, mirror: Mirror, request: Request, arms: list[Arm], start_ns: int) -> None:
        self._mirror = mirror
        self._arms = arms
        self._counted = False
        self._steps: Steps[list[Route]] | None = None
        self._gone_after_ns = -1
        self._held = True
        self._late: list[tuple[Arm, Copy]] = []
        """Copies that wait for the primary's answer to end."""
        self._primary_ended = False
        self._started: list[ref[ArmRequest]] | None = None
        """Weakly: what one has captured is not held here once it has ended."""
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
            self._counted = True
            mirror.books.skip("body_too_large")
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
        if self._mirror.switch.skip not in _GOING_ON:
            self.drop("switched_off")
            return
        self.settled = True
        self._mirror.plans.perform_soon(self)

    def perform(self) -> bool:
        """Send each arm its copy, then the primary's record may go, if it is ready; False where
        the body has to be looked at first.
        """
        if self._counted:
            self._start_late()
            return True
        mirror = self._mirror
        if not mirror.router.untouched(self.request):
            self._steps = mirror.router.routes(self.request, self._arms)
            return False
        self._counted = True
        self._started = []
        if self._off:
            mirror.books.off(self._arms)
        else:
            mirror.books.sampled(self._arms)
        try:
            for arm in () if self._off else self._arms:
                self._start(arm, AS_IT_CAME[0])
        finally:
            if self._primary_ended:
                self._offer()
        return True

    def go_on(self) -> bool:
        """Look at the body for one step more; True when it is known what becomes of the request."""
        if self._counted or self._steps is None:
            return True
        mirror = self._mirror
        if mirror.draining or mirror.switch.skip not in _GOING_ON:
            self.give_up("shutdown" if mirror.draining else "switched_off")
            return True
        try:
            next(self._steps)
        except StopIteration as end:
            self._steps = None
            self._follow(end.value)
        except NoRoom:
            self.give_up("memory")
        return self._counted

    def _follow(self, routes: list[Route]) -> None:
        self._counted = True
        wanted = any(route.copies for route in routes)
        if self._off:
            routes = [
                route._replace(skipped="shadow_off", copies=()) if route.copies else route
                for route in routes
            ]
        self._mirror.books.routed(routes, wanted=wanted)
        if not wanted:
            self._forget()
            return
        self._started = []
        try:
            for route in routes:
                for copy in route.copies:
                    self._start(route.arm, copy)
        finally:
            if self._primary_ended:
                self._offer()

    def _start(self, arm: Arm, copy: Copy) -> None:
        if arm.after_primary:
            if not self._primary_ended:
                self._late.append((arm, copy))
                return
            if self._gone_after_ns >= 0:
                reason = "the client left before it was this arm's turn"
                arm.leave_out(self.request, copy, "client_disconnected", reason)
                return
        mirrored = arm.start(self.request, copy)
        if mirrored is not None:
            assert self._started is not None
            self._started.append(ref(mirrored))
            if self._gone_after_ns >= 0:
                mirrored.censor(self._gone_after_ns)

    def _start_late(self) -> None:
        """The primary's answer has ended: what waited for that."""
        mirror = self._mirror
        if not self._late or not self._primary_ended:
            return
        if mirror.draining or mirror.switch.skip:
            self._drop_late("shutdown" if mirror.draining else "switched_off")
            return
        late, self._late = self._late, []
        try:
            for arm, copy in late:
                self._start(arm, copy)
        finally:
            self._offer()

    def _drop_late(self, reason: str) -> None:
        late, self._late = self._late, []
        for arm, _ in late:
            self._mirror.ledger.add(arm.name, "dropped", reason)
        if late:
            self._primary_ended = True
            self._offer()

    def primary_ended(self) -> None:
        """The primary's capture is complete, in whatever way."""
        if self._primary_ended or not self.settled:
            return
        self._primary_ended = True
        if self._late:
            self._mirror.plans.perform_soon(self)
        elif self._started is not None:
            self._offer()

    def client_gone(self) -> None:
        """The client left: both sides end at the same elapsed time."""
        now = monotonic_ns()
        self.capture.end(now, "client_disconnected", "the client closed its connection")
        self._gone_after_ns = now - (self.capture.sent_ns or now)
        for started in self._started or ():
            if (mirrored := started()) is not None:
                mirrored.censor(self._gone_after_ns)
        self.primary_ended()

    def never_reached(self) -> None:
        """The whole request came and no connection to the primary could be had."""
        if self.settled:  # a retry's connection failed: the arms have had their copy
            self.primary_ended()
            return
        meant = self._mirror.books.meant(self._arms, self.request.pair_id)
        if not meant:
            self.drop("primary_unreachable")
            return
        self.settled = self._counted = True
        if self._off:
            self._mirror.books.off(meant)
        else:
            self._mirror.books.sampled(meant)
            for arm in meant:
                self._mirror.ledger.add(arm.name, "dropped", "primary_unreachable")
        self._started = []
        self.primary_ended()

    def drop(self, reason: str) -> None:
        """The request ended before it was whole, or too late to be mirrored."""
        if not self.settled:
            self.give_up(reason)

    def give_up(self, reason: str) -> None:
        """No arm will have its copy that has had none yet."""
        if self._counted:
            self._drop_late(reason)
            return
        self._counted = True
        if self._off:
            self._mirror.books.skip("shadow_off")
        else:
            self._mirror.books.drop(self._arms, reason, self.request.pair_id)
        self._forget()

    @property
    def _off(self) -> bool:
        """It arrived in a shadow-off window: the primary's record alone is wanted."""
        return self.request.mirroring in OFF

    def abandon(self) -> None:
        """After a fault of ours: let the window close; what was sampled shows as lost."""
        self._counted = True
        self._late = []
        self._settle()
        self._release()

    def _forget(self) -> None:
        """Nobody gets anything of it, though the primary's answer may go on."""
        self._steps = None
        self._settle()
        self._release()
        self.capture.forget()
        if not self.request.captures:
            self.request.body = b""

    def _settle(self) -> None:
        self.settled = self._primary_ended = True

    def _offer(self) -> None:
        self._held = False  # the publisher releases it
        self.capture.leave()
        reached = "reached" if self.capture.sent_ns else "connect_failed"
        self._mirror.ledger.add(PRIMARY, reached)
        self._mirror.publisher.offer(self.capture)

    def _release(self) -> None:
        if self._held:
            self._held = False
            self.capture.leave()
            self._mirror.ledger.release(self.request.token)
