"""What the relay knows of the mirror: a plan a request, which is told of the request's way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from shadow.capture.capture import Capture
    from shadow.capture.request import Request
    from shadow.relay.head import RequestHead


class Plan(Protocol):
    """What the mirror does with one request: `shadow.mirror.plan.Plan`. Any call may raise."""

    @property
    def capture(self) -> Capture:
        """The primary's side."""

    @property
    def request(self) -> Request:
        """As the arms' records tell it."""

    @property
    def settled(self) -> bool:
        """The whole request went on, or was given up: nothing of its way is told any more."""

    def add(self, pieces: list[bytes]) -> bool:
        """More of the body; False when the mirror lets go of it."""

    def sent(self) -> None:
        """The last byte went on to the primary."""

    def drop(self, reason: str) -> None:
        """The request ended before it was whole."""

    def never_reached(self, reason: str) -> None:
        """It was whole, and the primary's connection never came."""

    def client_gone(self) -> None:
        """The client left."""

    def primary_ended(self) -> None:
        """The primary's capture is complete, in whatever way."""

    def abandon(self) -> None:
        """A fault of ours has ended it."""


class Mirror(Protocol):
    """`shadow.mirror.mirror.Mirror`."""

    def decide(self, head: RequestHead, start_ns: int) -> Plan | None:
        """What it will do with a request; None: nothing, which is counted."""

    def failed(self, error: Exception, plan: Plan | None = None) -> None:
        """A fault of the mirror's, which no client may hear of; it ends the plan."""
