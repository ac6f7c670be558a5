"""What a collector says of itself to whoever asks: whether it works, and what it has counted."""

from __future__ import annotations

from dataclasses import dataclass

STARTING = "starting"


@dataclass(slots=True)
class Status:
    """Written by the collector's thread, read by any."""

    reason: str | None = STARTING
    """Why it does not work now, in one line; None while it does."""
    records_total: int = 0
    dead_letters_total: int = 0
    unreadable_total: int = 0
    """Answers that could not all be read as they came: their bytes are kept."""

    def told(self, away: Exception | None) -> None:
        """Something is away, for this reason; or it works again."""
        self.reason = None if away is None else " ".join(str(away).split())
