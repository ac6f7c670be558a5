"""The accounting: counters that let a reader reconcile what was sampled with what was judged. Pure.

eligible = sampled + skipped(reason); sampled = captured + dropped(reason) + pending + lost.
`captured` is what the store holds; the rest of what was sampled is pending while its worker lives
and lost once it is dead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from types import MappingProxyType

NO_GAP = (
    "client_cancelled",
    "primary_failed",
    "warm_up",
    "after_window",
    "not_a_completion",
    "no_control",
)
"""Pairs excluded for these reasons are nobody's gap: coverage does not count them."""
NEVER_WHOLE = ("request_incomplete", "primary_unreachable")
"""Drops of requests that no arm was asked: the client left while it sent, or sent too slowly, or
the primary could not be reached. To coverage they are as client_cancelled and primary_failed."""


BEGAN = ("reached", "connect_failed", "breaker_open", "unsent")
"""What becomes of a request that an arm began: one of these, as the proxy counted."""


@dataclass(frozen=True, slots=True)
class Count:
    """One cumulative counter of one worker, boot and arm."""

    boot_id: str
    arm: str
    counter: str
    reason: str
    value: int


@dataclass(frozen=True)
class Account:
    """One arm's figures; both equations hold."""

    sampled: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    captured: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    pending: int = 0
    lost: int = 0
    began: Mapping[str, int] = field(default_factory=dict)
    """By `BEGAN`; where nothing was dropped after it had begun, captured is their sum."""
    unreadable: int = 0
    """Of the captured, answers of which not all could be read; their bytes are kept."""

    @property
    def eligible(self) -> int:
        """Sampled and skipped together."""
        return self.sampled + sum(self.skipped.values())

    @property
    def dropped_total(self) -> int:
        """Dropped for whatever reason."""
        return sum(self.dropped.values())


def accounts(
    counts: Iterable[Count],
    captured: Mapping[tuple[str, str], int],
    alive: AbstractSet[str],
    unreadable: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, Account]:
    """Every arm's account over all workers and boots.

    A record of counters may be a second older than the newest stored exchange. An exchange that is
    stored was sampled, so `sampled` is never less than captured and dropped together.

    Args:
        counts: cumulative counters, the newest of each worker, boot, arm, counter and reason.
        captured: stored exchanges by (boot_id, arm).
        alive: boots that may still send something.
        unreadable: stored exchanges that could not all be read, by arm.
    """
    listed = list(counts)
    arms = {count.arm for count in listed} | {arm for _, arm in captured}
    return {
        arm: replace(_account(arm, listed, captured, alive), unreadable=unreadable.get(arm, 0))
        for arm in sorted(arms)
    }


def _account(
    arm: str, counts: list[Count], captured: Mapping[tuple[str, str], int], alive: AbstractSet[str]
) -> Account:
    mine = [count for count in counts if count.arm == arm]
    boots = {count.boot_id for count in mine} | {boot for boot, name in captured if name == arm}
    sampled, open_or_lost = 0, Counter({"pending": 0, "lost": 0})
    for boot in boots:
        own = [count for count in mine if count.boot_id == boot]
        settled = captured.get((boot, arm), 0) + sum(_by_reason(own, "dropped").values())
        taken = max(sum(c.value for c in own if c.counter == "sampled"), settled)
        sampled += taken
        open_or_lost["pending" if boot in alive else "lost"] += taken - settled
    return Account(
        sampled=sampled,
        skipped=_by_reason(mine, "skipped"),
        captured=sum(held for (_, name), held in captured.items() if name == arm),
        dropped=_by_reason(mine, "dropped"),
        pending=open_or_lost["pending"],
        lost=open_or_lost["lost"],
        began={name: sum(count.value for count in mine if count.counter == name) for name in BEGAN},
    )


def _by_reason(counts: Iterable[Count], counter: str) -> dict[str, int]:
    found: Counter[str] = Counter()
    for count in counts:
        if count.counter == counter:
            found[count.reason] += count.value
    return {reason: value for reason, value in sorted(found.items()) if value}


def coverage(known: int, captured: int, dropped: int, lost: int, excluded: int) -> float | None:
    """Pairs known on both sides ÷ sampled requests whose time has come; None before any has.

    Args:
        known: pairs whose outcome is known on both sides, in closed windows.
        captured: the arm's exchanges in closed windows.
        dropped: sampled and left out with a reason that is none of `NEVER_WHOLE`; it stays in the
            denominator.
        lost: sampled and never to be seen; it stays there too.
        excluded: pairs that are excluded with a reason that is nobody's gap.
    """
    due = captured + dropped + lost - excluded
    return min(known / due, 1.0) if due > 0 else None
