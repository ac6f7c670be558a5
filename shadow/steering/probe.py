"""A probe: slices of time with mirroring and without, until their pairs tell the cause. Pure."""

from __future__ import annotations

from random import Random
from typing import Final, Literal

from shadow.steering.evidence import Finding, weigh
from shadow.steering.lag import Span

SLICE_S: Final = 0.4
SETTLE_S: Final = 0.1
"""A slice, and what of it is left out before: copies of short answers end."""
LONG_SLICE_S: Final = 2.0
LONG_SETTLE_S: Final = 15.0
"""The same where copies run on: until there is none, so long at most."""
MOST_S: Final = 30.0
MOST_LONG_S: Final = 240.0
"""So long a probe lasts at most: in an idle loop it would not end."""
_CLOCK_S: Final = 0.005
"""What spans are shorter than the clock that cuts them has them."""


class Probe:
    """Told of each span; `mirrors` is what it asks for, `found` what came of it.

    A pair is a slice with mirroring and one without, in drawn order, each settled the same way. The
    long one first waits in each slice without for the open copies to end, and as long in each with
    for them to come back: a stall that copies carry along leaves only with them.
    """

    __slots__ = (
        "_began_s",
        "_counted_s",
        "_draw",
        "_late",
        "_limit_ns",
        "_on_shares",
        "_ran_on",
        "_settle_s",
        "_settled",
        "_since_s",
        "_ticks",
        "_to_come",
        "added",
        "found",
        "long",
        "mirrors",
    )

    def __init__(self, limit_ns: int, now_s: float, draw: Random, *, long: bool = False) -> None:
        self._limit_ns, self._draw, self.long = limit_ns, draw, long
        self._began_s = now_s
        self._settle_s = SETTLE_S
        self.added: list[float] = []
        self._on_shares: list[float] = []
        self._ran_on = 0
        self.found: Finding | Literal["void"] = ""
        """void: something else turned mirroring off."""
        self._pair(now_s)

    def _pair(self, now_s: float) -> None:
        self._late: dict[bool, float] = {}
        first = bool(self._draw.getrandbits(1)) and not (self.long and not self.added)
        self._to_come = [not first]
        self._slice(now_s, mirrors=first)

    def _slice(self, now_s: float, *, mirrors: bool) -> None:
        self.mirrors, self._since_s, self._settled = mirrors, now_s, False
        self._counted_s, self._ticks = 0.0, [0, 0]

    def heard(self, span: Span) -> None:
        """A span has ended."""
        if span.on != self.mirrors:
            self.found = "void"
        elif span.now_s - self._began_s >= (MOST_LONG_S if self.long else MOST_S):
            self.found = "unclear"
        elif self._settled:
            self._count(span)
        else:
            self._settle(span)

    def _settle(self, span: Span) -> None:
        """Leave out what begins a slice."""
        gone_s = span.now_s - self._since_s
        if self.long and not span.on:
            self._settled = gone_s >= LONG_SETTLE_S or not span.open_copies
            self._settle_s = max(gone_s, SETTLE_S)
        else:
            self._settled = gone_s >= self._settle_s - _CLOCK_S

    def _count(self, span: Span) -> None:
        if not span.late_ns:  # idle: says nothing
            return
        self._ticks[0] += sum(late > self._limit_ns for late in span.late_ns)
        self._ticks[1] += len(span.late_ns)
        self._counted_s += span.length_s
        if self._counted_s >= (LONG_SLICE_S if self.long else SLICE_S) - _CLOCK_S:
            self._end_slice(span)

    def _end_slice(self, span: Span) -> None:
        late, ticks = self._ticks
        self._late[span.on] = late / ticks
        self._ran_on += not span.on and span.open_copies > 0
        if self._to_come:
            self._slice(span.now_s, mirrors=self._to_come.pop())
            return
        self.added.append(self._late[True] - self._late[False])
        self._on_shares.append(self._late[True])
        self.found = weigh(self.added)
        self._pair(span.now_s)

    @property
    def on_share(self) -> float:
        """Of the ticks with mirroring on, the late ones."""
        return sum(self._on_shares) / max(len(self._on_shares), 1)

    @property
    def mean_added(self) -> float:
        """Of the ticks, those that mirroring made late."""
        return sum(self.added) / max(len(self.added), 1)

    @property
    def ran_on(self) -> bool:
        """Copies were open at the end of most slices without mirroring."""
        return 2 * self._ran_on > len(self.added)
