"""Wait for a bad world with capped backoff, then raise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Backoff:
    """Waits of first_s, doubled up to cap_s; it gives up once limit_s have passed."""

    first_s: float = 0.2
    cap_s: float = 10.0
    limit_s: float = 120.0


def patiently(
    action: Callable[[], T],
    unavailable: type[Exception],
    backoff: Backoff,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> T:
    """Do `action`, again and again while it raises `unavailable` and `backoff` allows.

    Raises:
        the last `unavailable`, once `backoff.limit_s` would have passed.
    """
    started, wait = clock(), backoff.first_s
    while True:
        try:
            return action()
        except unavailable:
            if clock() - started + wait > backoff.limit_s:
                raise
        sleep(wait)
        wait = min(2 * wait, backoff.cap_s)
