"""A circuit breaker, without a clock of its own: when an arm that fails is left alone.

Closed, it counts failures in a row. At `failures` it opens: nothing is sent. After `open` it lets
`probes` requests through, and no more; all of them well closes it, one failure opens it again. What
began before the last change says nothing any more: an arm's requests end long after they began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from shadow.config.bounds import Breaker as Settings

FAILED: Final = frozenset({"connect_failed", "timed_out", "reset", "truncated", "malformed"})
"""The arm's own failures; of the other transports `complete` alone says that it is well."""
ERROR: Final = 500
"""A status from here on is a failure of the arm."""


class Breaker:
    """See the module. `era` changes whenever it opens, tries or closes."""

    __slots__ = (
        "_failures",
        "_open_ns",
        "_opened_ns",
        "_probes",
        "_row",
        "_trying",
        "_well",
        "era",
        "last_failure",
    )

    def __init__(self, settings: Settings) -> None:
        self._failures = settings.failures
        self._open_ns = int(settings.open * 1e9)
        self._probes = settings.probes
        self.era = 0
        self._row = 0
        """Failures in a row."""
        self._opened_ns = 0
        """When it opened (monotonic); 0: it is closed."""
        self._trying = self._well = 0
        self.last_failure = ""
        """How the last request failed that counted: a transport word, or `status 503`."""

    @property
    def open(self) -> bool:
        """Whether it is anything but closed."""
        return self._opened_ns != 0

    def refuses(self, now: int) -> bool:
        """Whether a request at `now` must not be sent."""
        if not self._opened_ns:
            return False
        if now - self._opened_ns < self._open_ns:
            return True
        return self._trying + self._well >= self._probes

    def begun(self) -> int:
        """A request that was not refused is sent: the era, to be given back with its end."""
        if self._opened_ns:
            if not self._trying + self._well:
                self.era += 1
            self._trying += 1
        return self.era

    def ended(self, era: int, transport: str, status: int | None, now: int) -> None:
        """How a request of that era ended; the client's leaving, or ours, says nothing."""
        if era != self.era:
            return
        broken = transport in FAILED
        failed = broken or (status is not None and status >= ERROR)
        if failed:
            self.last_failure = transport if broken else f"status {status}"
        if self._opened_ns:
            self._tried(now, failed=failed, well=not failed and transport == "complete")
        elif failed:
            self._row += 1
            if self._row >= self._failures:
                self._turn(now)
        elif transport == "complete":
            self._row = 0

    def _tried(self, now: int, *, failed: bool, well: bool) -> None:
        self._trying -= 1
        self._well += well
        if failed:
            self._turn(now)
        elif self._well >= self._probes:
            self._turn(0)

    def _turn(self, opened_ns: int) -> None:
        self.era += 1
        self._opened_ns = opened_ns
        self._row = self._trying = self._well = 0
