"""When nothing is mirrored: a function of the experiment's name and the clock.

So all workers and hosts agree.
"""

from __future__ import annotations

from hashlib import blake2b


class Windows:
    """Shadow-off windows: one in each period, at a random place, of a random length."""

    __slots__ = ("_keyed", "_least_s", "_most_s", "_period_s")

    def __init__(self, experiment: str, period_s: float, least_s: float, most_s: float) -> None:
        self._keyed = blake2b(digest_size=16, key=experiment.encode()[:64], person=b"shadow-off")
        self._period_s, self._least_s, self._most_s = period_s, least_s, most_s

    def of(self, period: int) -> tuple[float, float]:
        """(start, end) of the n-th period's window, s since 1970."""
        drawn = self._keyed.copy()
        drawn.update(str(period).encode())
        digest = drawn.digest()
        where, how = (int.from_bytes(half) / 2**64 for half in (digest[:8], digest[8:]))
        length = self._least_s + how * (self._most_s - self._least_s)
        start = period * self._period_s + where * (self._period_s - length)
        return start, start + length

    def since(self, now_s: float) -> float | None:
        """How long a window has been on at this moment (s since 1970); None: there is none."""
        start, end = self.of(int(now_s // self._period_s))
        return now_s - start if start <= now_s < end else None
