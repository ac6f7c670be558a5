"""Whether the mirror pauses itself, by the loop's lag with mirroring on and off. Pure."""

from __future__ import annotations

from random import Random
from typing import Final

from shadow.steering.lag import Lag, Span
from shadow.steering.probe import Probe

ON_S: Final = 10.0
OFF_S: Final = 5.0
"""Of so many seconds the lag is known; by the first it suspects."""
SOON_S: Final = 10.0
AGAIN_S: Final = 60.0
MOST_AGAIN_S: Final = 600.0
"""After a probe that has not told, after one that has cleared mirroring; ever later."""
WORSE: Final = 2.0
WORSE_BY: Final = 0.02
"""So many times the late ticks that were cleared, and so many of all more, are looked into after
AGAIN_S, however often lag was cleared."""
PAUSE_S: Final = 60.0
MOST_PAUSE_S: Final = 3600.0
CALM_S: Final = 600.0
"""After so long without a pause the next one is a first one again; without lag, a probe."""


class Guard:
    """Whether mirroring must stand still for the loop's sake. Told of each span once.

    A p99 above the limit over ten seconds with mirroring on is a suspicion. A probe follows: slices
    with mirroring and without, in turn, until they tell. What is late with it and not without: it
    was mirroring, and it pauses; if not, it goes on. Where copies ran on in the slices without, a
    long probe waits for them.
    """

    __slots__ = (
        "_again_s",
        "_asked_s",
        "_cleared",
        "_draw",
        "_lagged_s",
        "_limit_ns",
        "_long_again_s",
        "_long_not_before_s",
        "_not_before_s",
        "_pause_s",
        "_resume_at_s",
        "_resumed_s",
        "added",
        "off",
        "on",
        "pauses_total",
        "probe",
        "probes_total",
    )

    def __init__(self, limit_ns: int, draw: Random) -> None:
        self._limit_ns, self._draw = limit_ns, draw
        self.on, self.off = Lag(ON_S), Lag(OFF_S)
        self.probe: Probe | None = None
        self._resume_at_s: float | None = None
        self._resumed_s = self._lagged_s = self._asked_s = 0.0
        self._pause_s = PAUSE_S
        self.pauses_total = self.probes_total = 0
        self.added = 0.0
        """Of the moments, the share that mirroring made late, as the last probe saw it."""
        self._forget()

    def _forget(self) -> None:
        """No probe has told anything that holds."""
        self._cleared = 0.0
        self._not_before_s = self._long_not_before_s = 0.0
        self._again_s, self._long_again_s = SOON_S, MOST_AGAIN_S

    @property
    def paused(self) -> bool:
        """It has paused mirroring."""
        return self._resume_at_s is not None

    @property
    def holds(self) -> bool:
        """Mirroring must stand still: paused, or a probe's slice."""
        return self.paused or (self.probe is not None and not self.probe.mirrors)

    @property
    def suspects(self) -> bool:
        """With mirroring on the lag's p99 over ten seconds is above the limit."""
        return self.on.full and self.on.quantile(0.99) > self._limit_ns

    def heard(self, span: Span) -> None:
        """A span has ended."""
        (self.on if span.on else self.off).add(span)
        if self._resume_at_s is not None:
            self._paused(span.now_s, self._resume_at_s)
        elif self.probe is not None:
            self.probe.heard(span)
            self._look(self.probe, span.now_s)
        elif span.on and self.suspects:
            self._suspect(span.now_s)

    def _suspect(self, now_s: float) -> None:
        if now_s - self._lagged_s >= CALM_S:
            self._forget()
        self._lagged_s = now_s
        due = now_s >= self._not_before_s
        if due or (now_s - self._asked_s >= AGAIN_S and self._worse):
            self._ask(now_s)

    @property
    def _worse(self) -> bool:
        return self.on.share(self._limit_ns) > WORSE * self._cleared + WORSE_BY

    def _ask(self, now_s: float, *, long: bool = False) -> None:
        self.probe = Probe(self._limit_ns, now_s, self._draw, long=long)
        self.probes_total += 1

    def _look(self, probe: Probe, now_s: float) -> None:
        if not probe.found:
            return
        self.probe, self.added = None, probe.mean_added
        if probe.found == "guilty":
            self._pause(now_s)
        elif probe.found != "void":
            self._spare(probe, now_s)

    def _spare(self, probe: Probe, now_s: float) -> None:
        """It was not mirroring, as far as this probe could see."""
        self._asked_s, self._cleared = now_s, probe.on_share
        if probe.found == "cleared":
            self._again_s = max(self._again_s, AGAIN_S)
        self._not_before_s = now_s + self._again_s
        self._again_s = min(2 * self._again_s, MOST_AGAIN_S)
        if probe.ran_on and not probe.long and now_s >= self._long_not_before_s:
            self._long_not_before_s = now_s + self._long_again_s
            self._long_again_s = min(2 * self._long_again_s, MOST_PAUSE_S)
            self._ask(now_s, long=True)

    def _pause(self, now_s: float) -> None:
        if now_s - self._resumed_s >= CALM_S:
            self._pause_s = PAUSE_S
        self._resume_at_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, MOST_PAUSE_S)
        self._forget()
        self.pauses_total += 1

    def _paused(self, now_s: float, resume_at_s: float) -> None:
        if now_s >= resume_at_s:
            self._resume_at_s = None
            self._resumed_s = now_s
            self.on.clear()
