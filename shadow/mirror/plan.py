"""One sampled request from its head to the last arm's start: what is counted, held and handed on.

It is counted once, when it is known what becomes of it, so that the equations of the accounting
hold at any moment: its copies (eligible and sampled, one each), why there are none (skipped), or
that the request never came to that (sampled and dropped).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shadow.body.copy import AS_IT_CAME
from shadow.capture.side import PRIMARY
from shadow.choosing.routing import NoRoom
from shadow.mirror.intake import Intake

if TYPE_CHECKING:
    from shadow.body.copy import Copy
    from shadow.choosing.routes import Route
    from shadow.mirror.arm import Arm
    from shadow.mirror.starts import Replica


class Plan(Intake):
    """See the module, and `starts` for the layers. The client's connection drives it, and `plans`;
    every call may raise, and is guarded.
    """

    __slots__ = ()

    def ask(self, replica: Replica) -> None:
        """Tapped, and whole: look at the body first, then have the replica asked, then the arms."""
        self._mirror.plans.perform_soon(self)
        self._replica = replica

    def perform(self) -> bool:
        """Decide what is due (`start_next`); False where the body has to be looked at first."""
        if self._counted:
            self._resume()
            return True
        mirror = self._mirror
        if self._replica is not None and (reason := self._stopped()):
            self.give_up(reason)
            return True
        if not mirror.router.untouched(self.request):
            self._steps = mirror.router.routes(self.request, self._arms)
            return False
        self._counted = True
        if self._off:
            mirror.books.off(self._arms)
            self._begin([])
        else:
            mirror.books.sampled(self._arms)
            self._begin([(arm, AS_IT_CAME[0]) for arm in self._arms])
        return True

    def go_on(self) -> bool:
        """Look at the body for one step more; True when it is known what becomes of the request."""
        if self._counted or self._steps is None:
            return True
        reason = self._stopped()
        if reason:
            self.give_up(reason)
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
        self._begin([(route.arm, copy) for route in routes for copy in route.copies])

    def _begin(self, due: list[tuple[Arm, Copy]]) -> None:
        """It is counted; these copies are due, and the primary's record with the last of them."""
        self._started = []
        self._due = due
        if self._replica is not None:
            self._waits = True
            self._replica.begin()
        elif not due:
            self._offer()

    def let_go(self, reason: str) -> None:
        """Tapped: the replica's request ends where it stands, and what has not begun does not."""
        if self._counted:
            self.refused(reason)
        else:
            self.give_up(reason)

    def refused(self, reason: str) -> None:
        """Tapped, and counted: the replica may not have it, so nobody gets anything of it."""
        self._drop_waiting(reason)
        if self.capture.sent_ns:
            self._mirror.ledger.add(PRIMARY, "reached")
        self._mirror.ledger.add(PRIMARY, "dropped", reason)
        self._forget()

    def never_reached(self, reason: str) -> None:
        """It came whole and the primary's connection did not: why the arms have no copy."""
        if self.settled:  # a retry's connection failed: the arms have had their copy
            self.primary_ended()
            return
        self._replica = None
        if self._counted:  # tapped: the arms waited for the replica
            self._waits, self.settled = False, True
            self.give_up(reason)
            self.primary_ended()
            return
        meant = self._mirror.books.meant(self._arms, self.request.pair_id)
        if not meant:
            self.drop(reason)
            return
        self.settled = self._counted = True
        if self._off:
            self._mirror.books.off(meant)
        else:
            self._mirror.books.sampled(meant)
            for arm in meant:
                self._mirror.ledger.add(arm.name, "dropped", reason)
        self._started = []
        self.primary_ended()
