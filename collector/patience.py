"""Wait for a bad world with capped backoff, then raise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Backoff:
    """Waits of first_s, doubled up to cap_s; it gives up once limit_s have passed."""

    first_s: float = 0.2
    cap_s: float = 10.0
    limit_s: float = 120.0


def waits(first_s: float = 0.2, cap_s: float = 10.0) -> Iterator[float]:
    """Seconds to wait before each next try, without an end."""
    wait = first_s
    while True:
        yield wait
        wait = min(2 * wait, cap_s)


def patiently(
    action: Callable[[], T],
    unavailable: type[Exception],
    backoff: Backoff,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    told: Callable[[Exception | None], None] = lambda _away: None,
) -> T:
    """Do `action`, again and again while it raises `unavailable` and `backoff` allows.

    `told` hears of each failure, and with None that it works again.

    Raises:
        the last `unavailable`, once `backoff.limit_s` would have passed.
    """
    started, wait = clock(), backoff.first_s
    while True:
        try:
            result = action()
        except unavailable as away:
            told(away)
            if clock() - started + wait > backoff.limit_s:
                raise
        else:
            told(None)
            return result
        sleep(wait)
        wait = min(2 * wait, backoff.cap_s)
