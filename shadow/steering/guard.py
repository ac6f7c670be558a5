"""Whether the mirror pauses itself, by the loop's lag with mirroring on and off. Pure."""

from __future__ import annotations

from typing import Final

from shadow.steering.lag import Lag

ON_SECONDS: Final = 10
OFF_SECONDS: Final = 5
PROBE_S: Final = 15.0
"""How long a forced probe may last while copies that were open before it still run."""
AGAIN_S: Final = 60.0
MOST_AGAIN_S: Final = 600.0
"""A probe that found the lag without mirroring too is tried again after this, ever later."""
PAUSE_S: Final = 60.0
MOST_PAUSE_S: Final = 3600.0
CALM_S: Final = 600.0
"""After so long without a pause the next one is a first one again."""


class Guard:
    """Whether mirroring must stand still for the loop's sake. Told of each second once.

    A p99 above the limit over ten seconds with mirroring on is a suspicion. Five seconds without
    mirroring follow, a window's or a probe's own: if the p99 is within the limit there, it was
    mirroring, and it pauses; if not, it was not, and it goes on.
    """

    __slots__ = (
        "_again_s",
        "_limit_ns",
        "_not_before_s",
        "_pause_s",
        "_probe_since_s",
        "_quiet",
        "_resume_at_s",
        "_resumed_s",
        "_was_on",
        "off",
        "on",
        "pauses_total",
        "probes_total",
    )

    def __init__(self, limit_ns: int) -> None:
        self._limit_ns = limit_ns
        self.on, self.off = Lag(ON_SECONDS), Lag(OFF_SECONDS)
        self._was_on = False
        self._quiet = 0
        self._probe_since_s: float | None = None
        self._resume_at_s: float | None = None
        self._resumed_s = 0.0
        self._not_before_s = 0.0
        self._again_s, self._pause_s = AGAIN_S, PAUSE_S
        self.pauses_total = self.probes_total = 0

    @property
    def paused(self) -> bool:
        """It has paused mirroring."""
        return self._resume_at_s is not None

    @property
    def holds(self) -> bool:
        """Mirroring must stand still: paused, or probed."""
        return self._resume_at_s is not None or self._probe_since_s is not None

    @property
    def suspects(self) -> bool:
        """With mirroring on the lag is above the limit."""
        return self.on.full and self.on.quantile(0.99) > self._limit_ns

    def second(self, now_s: float, late_ns: list[int], *, on: bool, open_copies: int) -> None:
        """A second has ended, in all of which mirroring was on, or off.

        Args:
            now_s: the monotonic clock.
            late_ns: how late each tick of it was.
            on: whether mirroring was on.
            open_copies: requests of arms that are still open.
        """
        if self._resume_at_s is not None:
            self._paused(now_s, late_ns)
        elif on:
            self._was_on = True
            self.on.add(late_ns)
            if now_s >= self._not_before_s and self.suspects:
                self._probe_since_s = now_s
                self.probes_total += 1
        else:
            self._without(now_s, late_ns, open_copies)

    def _without(self, now_s: float, late_ns: list[int], open_copies: int) -> None:
        if self._was_on:
            self.off.clear()
            self._quiet = 0
        self._was_on = False
        self._quiet = 0 if open_copies else self._quiet + 1
        self.off.add(late_ns)
        if not self.off.full:
            return
        if self.suspects and self.off.quantile(0.99) <= self._limit_ns:
            self._pause(now_s)
        elif self._probe_since_s is not None:
            self._end_probe(now_s, self._probe_since_s)

    def _end_probe(self, now_s: float, since_s: float) -> None:
        """It was not mirroring, as far as anybody can see while copies still run."""
        if self._quiet < OFF_SECONDS and now_s - since_s < PROBE_S:
            return
        self._probe_since_s = None
        self._not_before_s = now_s + self._again_s
        self._again_s = min(2 * self._again_s, MOST_AGAIN_S)

    def _pause(self, now_s: float) -> None:
        if now_s - self._resumed_s >= CALM_S:
            self._pause_s = PAUSE_S
        self._probe_since_s = None
        self._resume_at_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, MOST_PAUSE_S)
        self._again_s = AGAIN_S
        self.pauses_total += 1

    def _paused(self, now_s: float, late_ns: list[int]) -> None:
        self.off.add(late_ns)
        if self._resume_at_s is not None and now_s >= self._resume_at_s:
            self._resume_at_s = None
            self._resumed_s = now_s
            self.on.clear()
