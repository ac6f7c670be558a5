"""What it costs a comparison that mirroring stood still: notes for the report. Pure."""

from __future__ import annotations

from analysis.accounting import Account
from analysis.case import Counted

STILLS = ("lag", "paused", "kill_switch")
"""Skips of requests that came while mirroring stood still, and that nobody planned."""
PLANNED_STILL = "shadow_off"
MUCH = 0.2
"""Beyond this share of the eligible requests the looks for lag eat the comparison."""


def stood_still(account: Account) -> list[str]:
    """One line where mirroring stood still unplanned: the share of requests skipped for it."""
    told = {name: account.skipped[name] for name in STILLS if account.skipped.get(name)}
    if not told:
        return []
    if account.skipped.get(PLANNED_STILL):
        told[PLANNED_STILL] = account.skipped[PLANNED_STILL]
    parts = ", ".join(f"{name} {n:,} ({n / account.eligible:.1%})" for name, n in told.items())
    seen = f"mirroring stood still: of {account.eligible:,} eligible requests it skipped"
    return [f"{seen} {parts}; the figures are of the other times"]


def eaten(account: Account, counted: Counted) -> list[str]:
    """One line with the way out, where looks for lag and what follows them cost more than `MUCH`.

    Pairs that are excluded as `after_window` stand for as many eligible requests as each that was
    sampled does.
    """
    lag = account.skipped.get("lag", 0)
    after = counted.excluded.get("after_window", 0) // counted.copies
    if not lag or not account.sampled:
        return []
    drawn = (account.sampled + account.skipped.get("not_sampled", 0)) / account.sampled
    share = (lag + after * drawn) / account.eligible
    if share <= MUCH:
        return []
    told = (
        f"{share:.0%} of the eligible requests are in no figure, since the proxy's loop lags: "
        f"{lag:,} were skipped (lag), {after:,} pairs came within 5 s after it stood still "
        "(after_window); give the proxy cores of its own, or raise isolation.pause_lag"
    )
    return [told]
