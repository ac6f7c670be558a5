"""The starts of one request's copies: which are due, which wait for the primary, which have begun.

The layers of one object, from here up: `Starts`, `intake.Intake` (how the request comes in, or does
not), `plan.Plan` (what becomes of it). Each calls only what lies below it.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING, Final, Protocol
from weakref import ref

from shadow.capture.capture import Capture
from shadow.capture.side import PRIMARY
from shadow.mirror.plans import Waiting

if TYPE_CHECKING:
    from shadow.body.copy import Copy
    from shadow.body.scan import Steps
    from shadow.capture.request import Request
    from shadow.choosing.routes import Route
    from shadow.mirror.arm import Arm
    from shadow.mirror.arm_request import ArmRequest
    from shadow.mirror.mirror import Mirror

_GOING_ON: Final = frozenset({"", "shadow_off"})
"""A request of a window without mirroring still has the primary's record."""


class Replica(Protocol):
    """A tapped request's way to the baseline replica: `baseline.Baseline`."""

    def begin(self) -> None:
        """It is known what becomes of the request: ask the replica."""

    def give_up(self) -> None:
        """Nobody gets anything of it: nor does the replica, unless it was sent already."""


class Starts(Waiting):
    """See the module."""

    __slots__ = (
        "_arms",
        "_counted",
        "_due",
        "_gone_after_ns",
        "_held",
        "_late",
        "_mirror",
        "_primary_ended",
        "_replica",
        "_started",
        "_steps",
        "_waits",
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
        self._due: list[tuple[Arm, Copy]] = []
        """Copies that are started next: a few in one turn of the loop."""
        self._late: list[tuple[Arm, Copy]] = []
        """Copies that wait for the primary's answer to end."""
        self._primary_ended = False
        self._replica: Replica | None = None
        """Tapped: who is sent the request first, until that is done."""
        self._waits = False
        """Tapped: what is due is not started before the replica was sent its own."""
        self._started: list[ref[ArmRequest]] | None = None
        """Weakly: what one has captured is not held here once it has ended."""
        self.settled = False
        self.request = request
        others = max(mirror.totals.open_streams - 1, 0)
        self.capture = Capture(mirror.primary, request, request.arrived_at, start_ns, others)

    def start_next(self) -> bool:
        """Start the next copy that is due; whether there are more."""
        if self._waits:
            return False
        due = self._due
        try:
            if due:
                self._start(*due.pop(0))
        except BaseException:  # a fault of ours: the others show as lost too
            due.clear()
            raise
        finally:
            if not due:
                self._offer()
        return bool(due)

    def _start(self, arm: Arm, copy: Copy) -> None:
        if arm.after_primary:
            if not self._primary_ended:
                self._late.append((arm, copy))
                self._mirror.plans.late[self] = None
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

    def _resume(self) -> None:
        """A later turn, or the primary's answer has ended: what waited for that is due.

        Unless the mirror has stopped meanwhile; what waited for the primary's end does not start in
        a window without mirroring either.
        """
        late: list[tuple[Arm, Copy]] = []
        if self.settled:
            self._waits = False
        if self._primary_ended:
            late = self._take_late()
        reason = self._stopped()
        if reason:
            self._drop(self._due + late, reason)
            self._due = []
        elif self._mirror.switch.skip:
            self._drop(late, "switched_off")
        else:
            self._due += late

    def _stopped(self) -> str:
        """Why nothing is started any more, as a drop's reason; '' while things are."""
        mirror = self._mirror
        if mirror.draining:
            return "shutdown"
        return "" if mirror.switch.skip in _GOING_ON else "switched_off"

    def _drop_waiting(self, reason: str) -> None:
        self._drop(self._due + self._take_late(), reason)
        self._due = []
        self._offer()

    def switch_off(self) -> None:
        """The kill switch: what waits for the primary's end will not have its turn."""
        self._drop(self._take_late(), "switched_off")
        self._offer()

    def _take_late(self) -> list[tuple[Arm, Copy]]:
        late, self._late = self._late, []
        self._mirror.plans.late.pop(self, None)
        return late

    def _drop(self, copies: list[tuple[Arm, Copy]], reason: str) -> None:
        for arm, _ in copies:
            self._mirror.ledger.add(arm.name, "dropped", reason)

    def primary_ended(self) -> None:
        """The primary's capture is complete, in whatever way."""
        if self._primary_ended or not self.settled:
            return
        self._primary_ended = True
        if self._late:
            self._mirror.plans.perform_soon(self)
        else:
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

    def _settle(self) -> None:
        self.settled = self._primary_ended = True

    def _offer(self) -> None:
        """The primary's record may go, once: it is whole, and no copy waits. Until then the
        request is open by it.
        """
        if self._started is None or not self._primary_ended or not self._held:
            return
        if self._due or self._late:
            return
        self._held = False  # the publisher releases it
        self.capture.leave()
        self._mirror.ledger.add(PRIMARY, self._how_far())
        self._mirror.publisher.offer(self.capture)

    def _how_far(self) -> str:
        """What the primary's side is counted as, of what was begun."""
        if self.capture.sent_ns:
            return "reached"
        return "unsent" if self.capture.transport == "client_disconnected" else "connect_failed"

    def _release(self) -> None:
        """Nothing of it is told any more; nor is a replica sent it that was not yet."""
        replica, self._replica = self._replica, None
        if replica is not None:
            replica.give_up()
        if self._held:
            self._held = False
            self.capture.leave()
            self._mirror.ledger.release(self.request.token)
