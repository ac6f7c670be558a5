"""What the proxy reaches the outside by: where it counts, where captures go, how names resolve."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from shadow.publish.counters import Name
from shadow.publish.metrics import Totals
from shadow.relay.addresses import Lookup, look_up
from shadow.stream import Message

if TYPE_CHECKING:
    from shadow.redaction.records import Veil


class Ledger(Protocol):
    """Where the mirror counts: `shadow.publish.accounting.Ledger`."""

    @property
    def worker(self) -> str:
        """Who it is in records, among all hosts."""

    @property
    def place(self) -> str:
        """Who it is on this host: what its files are called by."""

    @property
    def boot_id(self) -> str:
        """This life of it."""

    def add(self, arm: str, counter: str, reason: str = "", n: int = 1) -> None:
        """Count; cheap."""

    def add_all(self, names: Iterable[Name]) -> None:
        """Count each once, at the same moment."""

    def opened(self, arrived_at: int) -> int:
        """A token, held once: the request that arrived then is open."""

    def hold(self, token: int) -> None:
        """One more record of that request is on its way."""

    def release(self, token: int) -> None:
        """One less; at zero the request is closed."""


class Publishable(Protocol):
    """One capture on its way to the stream."""

    @property
    def arm(self) -> str:
        """The arm's name in the configuration."""

    @property
    def token(self) -> int:
        """The ledger's token of its request, held once for it; the publisher releases it."""

    @property
    def size_bytes(self) -> int:
        """What it keeps in memory."""

    def message(self, sequence: int) -> Message:
        """Its record, keyed by its pair; in the sender thread. If it raises, it is dropped."""


class Publisher(Protocol):
    """Where captures go: `shadow.publish.publisher.Publisher`."""

    @property
    def queued_bytes(self) -> int:
        """What waits or is being sent."""

    def offer(self, item: Publishable) -> bool:
        """Queue it, or drop and count it; never blocks."""


@dataclass(frozen=True, slots=True)
class Ports:
    """What the proxy reaches the outside by."""

    ledger: Ledger
    publisher: Publisher
    totals: Totals = field(default_factory=Totals)
    lookup: Lookup = look_up
    """How names become addresses; called in threads of its own."""
    veil: Veil | None = None
    """Redacts records; None: they are as they came."""
