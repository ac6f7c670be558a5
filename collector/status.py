"""What a collector says of itself to whoever asks: whether it works, and what it has counted."""

from __future__ import annotations

from dataclasses import dataclass, field

import structlog

from collector.store_errors import StoreError
from shadow.outage import Outage

STARTING = "starting"
_log = structlog.get_logger("collector")


@dataclass(slots=True)
class Status:
    """Written by the collector's thread, read by any."""

    reason: str | None = STARTING
    """Why it does not work now, in one line; None while it does."""
    records_total: int = 0
    dead_letters_total: int = 0
    unreadable_total: int = 0
    """Answers that could not all be read as they came: their bytes are kept."""

    _outage: Outage = field(default_factory=lambda: Outage(_log))

    def told(self, away: Exception | None) -> None:
        """Something is away, for this reason; or it works again. The log hears of both."""
        if away is None:
            self.reason = None
            self._outage.back()
            return
        what = "store" if isinstance(away, StoreError) else "stream"
        self.reason = f"the {what} is away: {' '.join(str(away).split())}"
        self._outage.away(f"{what} away: the collector waits", " ".join(str(away).split()))
