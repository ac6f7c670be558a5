"""What a client's connection asks of the request that it carries: a passage, or what is tapped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from shadow.relay.downstream import Downstream
    from shadow.relay.head import RequestHead
    from shadow.relay.relay import Relay
    from shadow.relay.upstream import Upstream


class Carried(Protocol):
    """One request, from its head until it sets its client's `passage` to None."""

    @property
    def connection(self) -> Upstream | None:
        """Where its answer comes from, if it comes from anywhere."""

    @property
    def takes_bytes(self) -> bool:
        """What the client sends now belongs to it."""

    @property
    def full(self) -> bool:
        """Read the client no further: what it sent has not been taken."""

    def begin(self, rest: bytes) -> None:
        """The head has come, with what came behind it."""

    def take(self, data: bytes) -> None:
        """More of its body."""

    def upload_lasts(self, since: int) -> None:
        """The mirror waits no longer for a body that began before `since`."""

    def client_left(self) -> None:
        """The client closed or reset."""

    def client_has_room(self) -> None:
        """It reads again."""

    def cut(self) -> None:
        """The drain's time is over."""


class Carry(Protocol):
    """Makes one for each head."""

    def __call__(self, client: Downstream, relay: Relay, head: RequestHead, now: int) -> Carried:
        """`now` is when the head's last byte came (monotonic, ns)."""
