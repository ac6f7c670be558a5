"""The loop's lag as the guard hears it: watched while there is traffic, finely while it probes."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

import structlog

from shadow.steering.guard import Guard
from shadow.steering.lag import FINE_S, TICK_S, Span, Watch

_SECOND_NS: Final = 1_000_000_000

_log = structlog.get_logger("shadow.switch")


class LoopLag:
    """On the loop only; told ten times a second."""

    __slots__ = ("_busy", "_last_ns", "_said", "_second_ns", "guard", "watch")

    def __init__(self, limit_ns: int) -> None:
        self.guard = Guard(limit_ns, Random())  # noqa: S311 the order of slices is no secret
        self.watch: Watch | None = None
        self._last_ns = self._second_ns = 0
        self._busy = False
        self._said = (False, False)

    def tick(self, now_ns: int, open_copies: int, *, on: bool, busy: bool, still: str = "") -> None:
        """A span has ended in all of which mirroring was on, or off; an idle loop is not watched.

        Args:
            now_ns: the monotonic clock.
            open_copies: requests of arms that are open.
            on: whether mirroring was on.
            busy: whether clients asked for anything in it, or wait for an answer.
            still: for what else than lag mirroring stands still from now on; '': nothing.
        """
        self._busy = self._busy or busy
        if busy and self.watch is None:
            self.watch = Watch(asyncio.get_running_loop())
        late_ns = [] if self.watch is None else self.watch.take()
        length_s, self._last_ns = (now_ns - self._last_ns) / 1e9, now_ns
        self.guard.heard(Span(now_ns / 1e9, length_s, late_ns, on, open_copies))
        if self.watch is not None:
            self.watch.pace(TICK_S if self.guard.probe is None else FINE_S)
        self._say(still)
        if now_ns - self._second_ns >= _SECOND_NS:
            if not self._busy:
                self.close()
            self._second_ns, self._busy = now_ns, False

    def _say(self, still: str) -> None:
        guard = self.guard
        before, self._said = self._said, (guard.paused, guard.probe is not None)
        if self._said == before:
            return
        if guard.paused:
            _log.warning(
                "mirroring pauses itself: the loop lags with it and not without it",
                more_late_with_it=_moments(guard.added),
                p99_on_ms=guard.on.quantile(0.99) / 1e6,
                p99_off_ms=guard.off.quantile(0.99) / 1e6,
            )
        elif guard.probe is not None:
            _log.info("the loop lags with mirroring on; looking whether it does without")
        elif still:
            _log.info(f"lag is over; still {still}")
        else:
            more = _moments(guard.added)
            _log.info("mirroring goes on", stood_still_for="lag", more_late_with_it=more)

    def close(self) -> None:
        """End the watching."""
        if self.watch is not None:
            self.watch.stop()
            self.watch = None


def _moments(added: float) -> str:
    """`+1.15 % of the moments`: of all, the share that is late with mirroring and not without."""
    return f"{100 * added:+.2f} % of the moments"
