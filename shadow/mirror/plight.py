"""What the log says of an arm that cannot be reached, or whose breaker is open.

Looked at by the proxy's clock, never by a request: a request that got no connection leaves its
reason here, one that got a new one takes it away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from shadow.choosing.breaker import Breaker

QUIET_NS: Final = 10 * 10**9
"""No more than a line of an arm in so long."""
AGAIN_NS: Final = 60 * 10**9
"""What goes on is said again after so long."""

_log = structlog.get_logger("shadow.mirror")


class Plight:
    """Of one arm in one worker. On the loop only.

    Args:
        name: the arm's.
        host, port: where it is to be reached.
        breaker: its breaker; None where it has none.
    """

    __slots__ = (
        "_again",
        "_at",
        "_breaker",
        "_host",
        "_name",
        "_said",
        "_said_ns",
        "_since_ns",
        "reason",
    )

    def __init__(self, name: str, host: str, port: int, breaker: Breaker | None) -> None:
        self._name, self._host, self._breaker = name, host, breaker
        self._at = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.reason = ""
        """Why the last try had no connection; '': it had one, or there was none yet."""
        self._again = False
        """It failed since the last line."""
        self._said = (False, False)
        self._said_ns = self._since_ns = 0

    def failed(self, reason: str) -> None:
        """A try had no connection."""
        self.reason, self._again = reason, True

    def look(self, now_ns: int) -> None:
        """Say what is new, or goes on, at `now_ns` (monotonic)."""
        is_open = self._breaker is not None and self._breaker.open
        state = bool(self.reason), is_open
        if state == self._said and not is_open and not (self.reason and self._again):
            return
        due_ns = AGAIN_NS if state == self._said else QUIET_NS
        if self._said_ns and now_ns - self._said_ns < due_ns:
            return
        if not any(self._said):
            self._since_ns = now_ns
        self._said, self._said_ns, self._again = state, now_ns, False
        self._say(round((now_ns - self._since_ns) / 1e9), is_open=is_open)

    def _say(self, for_s: int, *, is_open: bool) -> None:
        if not self.reason and not is_open:
            shut = "" if self._breaker is None else ": its breaker is closed"
            _log.info(f"arm {self._name}: well again{shut}", after_s=for_s)
            return
        told = [f"no connection to {self._at}: {self._short}"] if self.reason else []
        if is_open and self._breaker is not None:
            why = "" if self.reason else f" ({self._breaker.last_failure})"
            told.append(f"its breaker is open{why}")
        _log.warning(f"arm {self._name}: {'; '.join(told)}", for_s=for_s)

    @property
    def _short(self) -> str:
        """The reason without the address, where the line's head says it."""
        return self.reason.removeprefix(f"{self._host}: ")
