"""What an arm may be given now: its rate, its budget, its breaker, its concurrency.

Asked at an arm's start, on the event loop: a few comparisons where none of it is configured.
Nothing waits: what may not be sent is dropped with a reason, or left out because the arm is broken.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from shadow.choosing.breaker import Breaker
from shadow.choosing.usage import LAST_BYTES, SAMPLED_BYTES, tokens

if TYPE_CHECKING:
    from shadow.capture.capture import Capture
    from shadow.choosing.spending import Purse
    from shadow.config.upstream import Arm as Settings

BREAKER_OPEN: Final = "breaker_open"
"""The one refusal that is a record, not a drop: the arm's failure."""


class Bucket:
    """A token bucket: `rate` a second, a second's worth at most, one at least."""

    __slots__ = ("_at_ns", "_left", "_most", "_rate")

    def __init__(self, rate: float) -> None:
        self._rate = rate / 1e9
        self._most = max(rate, 1.0)
        self._left = self._most
        self._at_ns = 0

    def empty(self, now: int) -> bool:
        """Whether there is not one left at `now` (monotonic, ns)."""
        if self._at_ns:
            self._left = min(self._most, self._left + (now - self._at_ns) * self._rate)
        self._at_ns = now
        return self._left < 1.0

    def take(self) -> None:
        """One less."""
        self._left -= 1.0


class Admission:
    """One arm's, in one worker."""

    def __init__(self, settings: Settings, workers: int, purse: Purse | None) -> None:
        rate = settings.limits.requests_per_s
        self.concurrency = settings.concurrency // workers
        self.breaker = None if settings.breaker == "off" else Breaker(settings.breaker)
        self._bucket = None if rate is None else Bucket(rate / workers)
        self._purse = purse

    def refusal(self, now: int, open_requests: int, request_bytes: int) -> str:
        """Why a request may not be sent: a drop's reason or BREAKER_OPEN; '' where it may.

        The rate and the budget count what a broken arm would have got too: what is recorded of it
        while it is broken is as many requests as when it is well.
        """
        if self._bucket is not None and self._bucket.empty(now):
            return "rate"
        purse = self._purse
        if purse is not None and purse.empty(open_requests, tokens(request_bytes, 0, b"", b"")):
            return "budget"
        if self.breaker is not None and self.breaker.refuses(now):
            if self._bucket is not None:
                self._bucket.take()
            return BREAKER_OPEN
        return "concurrency" if open_requests >= self.concurrency else ""

    def begun(self) -> int:
        """A request that was not refused is sent; its era is told back with its end."""
        if self._bucket is not None:
            self._bucket.take()
        return 0 if self.breaker is None else self.breaker.begun()

    def ended(self, era: int, capture: Capture, request_bytes: int, *, reached: bool) -> None:
        """How it ended, in whatever way; `reached`: its bytes were written to a connection."""
        if self.breaker is not None:
            status = None if capture.head is None else capture.head.status
            self.breaker.ended(era, capture.transport, status, capture.end_ns or monotonic_ns())
        if self._purse is not None and reached:
            first, last = capture.ends(SAMPLED_BYTES, LAST_BYTES)
            self._purse.spend(tokens(request_bytes, capture.total_bytes, first, last))
