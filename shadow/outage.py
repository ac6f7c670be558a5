"""What is said of something that is away: once, again when the reason is another or half a minute
has passed, and once when it is back. It never says a line per try.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

AGAIN_S = 30.0
MOST_REASONS = 20
"""Beyond so many in one outage, another reason is no news either."""


class Log(Protocol):
    """structlog's."""

    def warning(self, event: str, **values: Any) -> Any:
        """A line."""

    def info(self, event: str, **values: Any) -> Any:
        """A line."""


class Outage:
    """Of one thing. Any thread.

    Args:
        log: where lines go.
        clock: seconds, monotonic.
        starting: said once, instead of all reasons, while it was never there yet and `quiet_s`
            have not passed since the first try: what starts beside us takes its time.
        quiet_s: see above.
    """

    def __init__(
        self,
        log: Log,
        clock: Callable[[], float] = time.monotonic,
        starting: str = "",
        quiet_s: float = 0.0,
    ) -> None:
        self._log, self._clock = log, clock
        self._starting, self._quiet_s = starting, quiet_s
        self._since: float | None = None
        self._event = ""
        self._told: dict[str, float] = {}
        self._lock = threading.Lock()

    def away(self, event: str, reason: str, **more: object) -> None:
        """It failed again.

        Args:
            event: the line's head, such as "stream away".
            reason: what, where, and the way out, in one line.
            more: further values of the line.
        """
        with self._lock:
            now = self._clock()
            begins = self._since is None
            self._since = since = now if self._since is None else self._since
            self._event = event
            if now - since < self._quiet_s:
                if begins:
                    self._log.info(self._starting)
                return
            if not self._is_news(reason, now):
                return
            self._told[reason] = now
            for_s = round(now - since)
        self._log.warning(event, reason=reason, for_s=for_s, **more)

    def back(self, **more: object) -> None:
        """It worked; a line only if it was said to be away."""
        self._quiet_s = 0.0
        if self._since is None:  # the common case takes no lock
            return
        with self._lock:
            if self._since is None:
                return
            for_s, event = round(self._clock() - self._since), self._event
            self._since, told = None, bool(self._told)
            self._told.clear()
        if told:
            self._log.info(f"{event}: over", after_s=for_s, **more)

    def _is_news(self, reason: str, now: float) -> bool:
        last = max(self._told.values(), default=now - AGAIN_S)
        if now - last >= AGAIN_S:
            return True
        return reason not in self._told and len(self._told) < MOST_REASONS
