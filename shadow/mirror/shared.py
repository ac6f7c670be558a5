"""What the arms of a mirror have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shadow.capture.held import Held
from shadow.capture.side import Origin, Side
from shadow.choosing.spending import spending
from shadow.config.choice import Inside
from shadow.relay.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from shadow.choosing.spending import Spending
    from shadow.config.model import Config
    from shadow.config.operations import Limits
    from shadow.config.subject import Subject
    from shadow.mirror.headers import ArmHeaders
    from shadow.ports import Ledger, Ports, Publisher
    from shadow.redaction.records import Veil
    from shadow.relay.addresses import Lookup


@dataclass(frozen=True, slots=True)
class Shared:
    """See the module."""

    origin: Origin
    limits: Limits
    ledger: Ledger
    publisher: Publisher
    lookup: Lookup
    turns: Turns
    """One for all arms: what they cost the loop together is bounded."""
    held: Held
    subject: Subject | None
    inside: Inside
    workers: int
    spending: Spending
    failed: Callable[[Exception], None]
    """Told of a fault of ours."""
    veil: Veil | None

    def side(
        self, name: str, role: str, weight: float = 1.0, headers: ArmHeaders | None = None
    ) -> Side:
        """One arm as its records name it; without `headers` the primary."""
        return Side(
            self.origin,
            name,
            role,
            weight,
            headers,
            self.limits.answer_bytes,
            self.limits.answer_tail,
            self.held,
            self.subject,
            self.veil,
        )


def shared_of(
    config: Config, config_hash: str, ports: Ports, failed: Callable[[Exception], None]
) -> Shared:
    """By the configuration."""
    ledger = ports.ledger
    return Shared(
        Origin(config.experiment, config_hash, ledger.worker, ledger.boot_id, config.attach),
        config.limits,
        ledger,
        ports.publisher,
        ports.lookup,
        Turns(),
        Held(config.limits.mirror_bytes, ports.publisher),
        config.subject,
        Inside(config.networks),
        config.workers,
        spending(config, ledger.place),
        failed,
        ports.veil,
    )
