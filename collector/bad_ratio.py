"""Stop before a mistake in a deployment drains the whole stream into dead letters. Pure."""

from __future__ import annotations

from collections import deque


class TooManyBadValues(Exception):
    """Most of what came lately cannot be read: not a bad value, but a bad reader or writer."""


class BadRatio:
    """The share of bad values among the last `window` records, once `least` of them were bad.

    Args:
        most: the share that is still tolerated.
        window: how many records are looked back at.
        least: so many bad values there are at least (`limits.bad_records`); 0: it never stops.
    """

    def __init__(self, most: float = 0.5, window: int = 1000, least: int = 50) -> None:
        self._most, self._window, self._least = most, window, least
        self._recent: deque[bool] = deque(maxlen=window)
        self._bad = 0

    def good(self) -> None:
        """Count a record that was read."""
        self._count(bad=False)

    def bad(self, source: str, reason: str) -> None:
        """Count a record that was not.

        Raises:
            TooManyBadValues: it was one too many; nothing after the last commit is lost.
        """
        self._count(bad=True)
        if 0 < self._least <= self._bad and self._bad > self._most * len(self._recent):
            raise TooManyBadValues(
                f"{self._bad} of the last {len(self._recent)} records cannot be stored, the last "
                f"at {source}: {reason}; is the proxy newer than the collector? To get past them, "
                "limits.bad_records: 0 lets them become dead letters (docs/operations.md)"
            )

    def _count(self, *, bad: bool) -> None:
        if len(self._recent) == self._window:
            self._bad -= self._recent[0]
        self._recent.append(bad)
        self._bad += bad
