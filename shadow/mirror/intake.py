"""How a sampled request comes in: kept piece by piece while the primary gets it, or given up."""

from __future__ import annotations

from shadow.mirror.starts import Starts
from shadow.steering.switch import OFF


class Intake(Starts):
    """See the module, and `starts` for the layers."""

    __slots__ = ()

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
        self._replica = None
        reason = "" if self._counted else self._stopped()
        if reason:
            self.drop(reason)
            return
        self.settled = True
        self._mirror.plans.perform_soon(self)

    def drop(self, reason: str) -> None:
        """The request ended before it was whole, or too late to be mirrored."""
        if not self.settled:
            self.give_up(reason)

    def give_up(self, reason: str) -> None:
        """No arm will have its copy that has had none yet."""
        if self._counted:
            self._drop_waiting(reason)
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
        self._due = []
        self._take_late()
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
