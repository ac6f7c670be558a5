"""Every way in which an arm misbehaves, and how each must show in the books."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from faults.engines import (
    Manner,
    Upstream,
    babbles,
    good,
    half,
    never,
    nobody,
    refuses,
    resets,
    upstream,
)
from relay.raw import Hole, black_hole

Settings = dict[str, object]


@dataclass(frozen=True)
class Fault:
    """One way to misbehave."""

    arm: Callable[[], AbstractAsyncContextManager[Upstream | Hole]]
    requests: int
    """How many in the fast tests; 0: it is like another there, and has its turn in make soak."""
    soak: int
    """How many when it is to be seen whether anything grows."""
    must: frozenset[str]
    """The transports that the arm's records must have, each at least once."""
    may: frozenset[str] = frozenset()
    """Those that they may have beside."""
    drops: frozenset[str] = frozenset()
    """For which reasons requests must be dropped; for another, none may."""
    spare: frozenset[str] = frozenset()
    """For which reasons records may be dropped on a slow machine; four of five at most."""
    settings: Settings = field(default_factory=dict)
    at_once: int = 16
    events: int = 5
    event_bytes: int = 0
    grows_mb: float = 16.0
    """By how much memory may be larger in the second half than in the first."""
    pause_s: float = 0.03
    plain_every: int = 1
    """At full length the proxy without arms is asked with every n-th request."""
    later_ms: tuple[float, float] = (5.0, 25.0)
    """By how much the median and the 95th percentile may be later, on a machine that is shared."""

    held_ms: float | None = None
    """For how long the loop may be held, where that is watched."""


def manner(which: Manner) -> Callable[[], AbstractAsyncContextManager[Upstream]]:
    return lambda: upstream(which)


def words(*which: str) -> frozenset[str]:
    return frozenset(which)


BREAKER_OFF: Settings = {"breaker": "off"}
"""What a fault does when it is met by every request."""

FAULTS = {
    "never answers": Fault(
        manner(never),
        300,
        20_000,
        words("timed_out"),
        drops=words("concurrency"),
        settings={"deadline": "1s", "concurrency": 50},
    ),
    # 4 at once of 35 ms each are 114 a second; 16 clients offer twice that
    "half capacity": Fault(
        lambda: upstream(half(4, 0.007)),
        300,
        20_000,
        words("complete", "timed_out"),
        drops=words("concurrency"),
        settings={"deadline": "300ms", "concurrency": 50},
    ),
    "resets in mid-stream": Fault(manner(resets), 300, 20_000, words("reset")),
    "status 500 and a long body": Fault(manner(refuses), 300, 10_000, words("complete")),
    "no HTTP": Fault(manner(babbles), 300, 10_000, words("malformed"), words("reset", "truncated")),
    "SYN unanswered": Fault(
        black_hole,
        300,
        20_000,
        words("connect_failed"),
        drops=words("concurrency"),
        settings={"connect_timeout": "500ms", "deadline": "1s", "concurrency": 50},
    ),
    "connection refused": Fault(nobody, 0, 20_000, words("connect_failed")),
    "connection refused, left alone": Fault(
        nobody,
        150,
        100_000,  # the cheapest of all: after so many, no file is open that was not before
        words("connect_failed", "breaker_open"),
        settings={"breaker": {"failures": 20, "open": "1s"}},
        plain_every=10,
        pause_s=0.02,
    ),
    "a name that does not resolve": Fault(
        nobody,  # its URL stands in the settings
        300,
        5_000,
        words("connect_failed"),
        settings={"url": "http://engine.invalid:8000", "connect_timeout": "500ms"},
    ),
    "5 MB answers": Fault(
        manner(good(5, 1_000_000)),
        6,
        600,
        words("complete"),
        spare=words("queue_full"),
        at_once=2,
        events=5,
        event_bytes=1_000_000,
        grows_mb=128.0,
        pause_s=0.2,
        later_ms=(60.0, 250.0),
        held_ms=25.0,
    ),
}
