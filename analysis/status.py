"""What the analysis says of itself, for its health port."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from analysis.look import Newest


@dataclass(slots=True)
class Status:
    """What the service says of itself: written by its thread, read by any."""

    reason: str | None = "starting"
    """Why it does not work now, in one line; None while it does."""
    looks_total: int = 0
    look_seconds: float = 0.0
    verdicts: Mapping[str, Newest] = field(default_factory=dict)
    """By candidate, as the last look has them."""

    def looked(self, seconds: float) -> None:
        """A pass over the store took so long, and worked."""
        self.reason, self.look_seconds = None, seconds
        self.looks_total += 1
