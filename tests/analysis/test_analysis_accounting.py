"""The accounting's equations hold for whatever was counted, and coverage counts what is due."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from analysis.accounting import Count, accounts, coverage

small = st.integers(0, 1000)


def counts(boot="b1", **values):
    return [Count(boot, "fp8", counter, "", value) for counter, value in values.items()]


def test_the_rest_is_pending_while_the_worker_lives_and_lost_afterwards():
    """sampled 10, stored 6, dropped 1: three are pending, or lost once the boot is dead."""
    listed = [*counts(eligible=12, sampled=10), Count("b1", "fp8", "dropped", "deadline", 1)]
    captured = {("b1", "fp8"): 6}
    alive = accounts(listed, captured, {"b1"})["fp8"]
    assert (alive.pending, alive.lost) == (3, 0)
    dead = accounts(listed, captured, set())["fp8"]
    assert (dead.pending, dead.lost) == (0, 3)
    assert dead.dropped == {"deadline": 1}


def test_what_an_arm_began_is_added_up_over_boots():
    """reached, connect_failed, breaker_open and unsent stand beside the equations."""
    listed = [
        *counts("b1", sampled=9, reached=4, connect_failed=1),
        *counts("b2", sampled=5, reached=3, breaker_open=5, unsent=1),
    ]
    account = accounts(listed, {("b1", "fp8"): 5, ("b2", "fp8"): 9}, set())["fp8"]
    assert account.began == {"reached": 7, "connect_failed": 1, "breaker_open": 5, "unsent": 1}
    assert account.captured == sum(account.began.values())


def test_boots_do_not_cover_for_each_other():
    """One boot's surplus of stored records hides nothing that another lost."""
    listed = [*counts("b1", sampled=10), *counts("b2", sampled=5)]
    account = accounts(listed, {("b1", "fp8"): 4, ("b2", "fp8"): 5}, {"b2"})["fp8"]
    assert (account.sampled, account.captured, account.lost, account.pending) == (15, 9, 6, 0)


@given(small, small, small, small, st.booleans())
def test_both_equations_hold(sampled, skipped, dropped, captured, alive):
    """Also when the counters' record is older than the newest stored exchange."""
    listed = [
        *counts(eligible=sampled + skipped, sampled=sampled),
        Count("b1", "fp8", "skipped", "not_sampled", skipped),
        Count("b1", "fp8", "dropped", "queue_full", dropped),
    ]
    account = accounts(listed, {("b1", "fp8"): captured}, {"b1"} if alive else set())["fp8"]
    assert account.eligible == account.sampled + sum(account.skipped.values())
    assert account.sampled == (
        account.captured + account.dropped_total + account.pending + account.lost
    )
    assert account.sampled >= sampled
    assert min(account.pending, account.lost) == 0


def test_coverage():
    """Lost and dropped stay in the denominator; what nobody could pair does not; nothing due: None."""
    assert coverage(known=90, captured=95, dropped=3, lost=2, excluded=0) == 0.9
    assert coverage(known=90, captured=95, dropped=3, lost=2, excluded=10) == 1.0
    assert coverage(known=0, captured=10, dropped=0, lost=0, excluded=10) is None
