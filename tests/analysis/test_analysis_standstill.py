"""What standing still cost is told, and where it is much, the way out too."""

from __future__ import annotations

from analysis.accounting import Account
from analysis.case import Counted
from analysis.standstill import eaten, stood_still


def test_mirroring_that_stood_still_is_told_with_its_share():
    """For lag, a pause or the kill switch; the planned windows alone are no news."""
    assert stood_still(Account(100, {"shadow_off": 5, "not_sampled": 95})) == []
    (told,) = stood_still(Account(80, {"shadow_off": 5, "lag": 10, "paused": 5}))
    assert told == (
        "mirroring stood still: of 100 eligible requests it skipped lag 10 (10.0%), "
        "paused 5 (5.0%), shadow_off 5 (5.0%); the figures are of the other times"
    )


def test_lag_that_eats_the_comparison_is_told_with_the_way_out():
    """Skips and what is excluded after them together: neither alone is a fifth."""
    account = Account(900, {"lag": 100})
    (told,) = eaten(account, Counted(excluded={"after_window": 150, "warm_up": 200}))
    assert told == (
        "25% of the eligible requests are in no figure, since the proxy's loop lags: 100 were "
        "skipped (lag), 150 pairs came within 5 s after it stood still (after_window); give the "
        "proxy cores of its own, or raise isolation.pause_lag"
    )
    assert eaten(account, Counted(excluded={"after_window": 100})) == []  # a fifth is not more
    assert len(eaten(account, Counted(excluded={"after_window": 101}))) == 1


def test_a_sampled_arm_and_copies_count_as_requests():
    """A tenth is sampled: an excluded pair stands for ten eligible requests, two copies for one."""
    account = Account(90, {"lag": 100, "not_sampled": 810})
    assert len(eaten(account, Counted(excluded={"after_window": 24}, copies=2))) == 1
    assert eaten(account, Counted(excluded={"after_window": 20}, copies=2)) == []


def test_windows_alone_are_no_lag():
    """Without lag nothing is said of it, however much the planned windows exclude."""
    assert eaten(Account(100, {"shadow_off": 5}), Counted(excluded={"after_window": 60})) == []
    assert eaten(Account(), Counted()) == []
