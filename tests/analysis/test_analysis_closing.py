"""Closing of windows: nothing closes early, nobody dead holds anything back, load does not starve it."""

from __future__ import annotations

from dataclasses import replace

from analysis.closing import (
    DEAD_AFTER_NS,
    SILENT_AFTER_NS,
    Boot,
    Progress,
    Stored,
    live,
    marks,
    settle,
    watermark,
)

S = 10**9
BOOT = Boot("w1", "b1", 100 * S, 10, 0, 98 * S, False)


def closes(boots, stored, now=101 * S, progress=None, seconds=1):
    """One look's watermark in seconds."""
    awaited = marks(progress or Progress(), live(boots, now))
    after = settle(progress or Progress(), awaited, stored)
    found = watermark(after, boots, stored, now, seconds)
    return None if found is None else found / S


def test_low_water_closes_once_all_is_stored():
    """The sequence check holds a window while one record of it is not stored, and drops count."""
    assert closes([BOOT], {"b1": Stored(10, 99 * S)}) == 98
    assert closes([BOOT], {"b1": Stored(9, 99 * S)}) is None
    assert closes([replace(BOOT, dropped_sequences=1)], {"b1": Stored(9, 99 * S)}) == 98
    assert closes([BOOT], {"b1": Stored(10, 99 * S)}, seconds=60) == 60


def test_the_slowest_worker_decides():
    """Two workers: the lower low water closes; a worker without a record yet holds everything."""
    other = replace(BOOT, worker="w2", boot_id="b2", low_water_ns=90 * S)
    stored = {"b1": Stored(10, 99 * S), "b2": Stored(10, 99 * S)}
    assert closes([BOOT, other], stored) == 90
    assert closes([BOOT], {**stored, "b3": Stored(0, 100 * S)}) is None
    assert closes([BOOT], {**stored, "b3": Stored(0, 100 * S)}, now=131 * S) == 98


def test_the_dead_hold_nothing_back():
    """Silent while another speaks, a newer boot of its worker, or final: it holds nothing back."""
    gap = {"b1": Stored(3, 99 * S)}
    other = Boot("w2", "b2", BOOT.at_ns + DEAD_AFTER_NS, 0, 0, BOOT.at_ns + DEAD_AFTER_NS, False)
    later = replace(other, at_ns=other.at_ns + 1)
    assert closes([BOOT, other], gap, now=other.at_ns) is None
    assert closes([BOOT, later], gap, now=later.at_ns) == other.at_ns / S
    final = replace(BOOT, final=True, low_water_ns=None)
    assert closes([final], gap) == 100
    newer = Boot("w1", "b2", 101 * S, 0, 0, 101 * S, False)
    assert closes([BOOT, newer], gap) == 101


def test_a_collector_that_lags_makes_nobody_dead():
    """Nobody heard of: it may be the collector. Only after minutes is it taken for the workers."""
    gap = {"b1": Stored(3, 99 * S)}
    assert closes([BOOT], gap, now=BOOT.at_ns + 10 * DEAD_AFTER_NS) is None
    assert closes([BOOT], gap, now=BOOT.at_ns + SILENT_AFTER_NS) is None
    assert closes([BOOT], gap, now=BOOT.at_ns + SILENT_AFTER_NS + 1) == 100


def test_under_load_a_mark_stands_still_until_it_is_reached():
    """The newest record is always ahead of the store; the one waited for is reached nevertheless."""
    progress = Progress()
    found = []
    for second in range(4):
        boot = replace(
            BOOT,
            at_ns=(100 + second) * S,
            high_sequence=10 + 10 * second,
            low_water_ns=(98 + second) * S,
        )
        now = boot.at_ns
        awaited = marks(progress, live([boot], now))
        held = 5 + 10 * second  # always behind the newest mark
        stored = {"b1": Stored(min(held, awaited["b1"].high_sequence), now)}
        progress = settle(progress, awaited, stored)
        found.append(watermark(progress, [boot], stored, now, 1))
    assert found == [None, 98 * S, 98 * S, 100 * S]


def test_a_mark_that_is_never_reached_is_given_up():
    """A sequence dropped after its record was written is counted in a later record."""
    lost = replace(BOOT, high_sequence=10)
    newer = replace(
        BOOT, at_ns=106 * S, high_sequence=20, dropped_sequences=1, low_water_ns=104 * S
    )
    progress = settle(Progress(), {"b1": lost}, {"b1": Stored(9, 99 * S)})
    assert progress.marks == {"b1": lost}
    assert marks(progress, live([newer], 106 * S)) == {"b1": newer}


def test_a_record_that_never_comes_holds_nothing_for_ever():
    """A dead letter leaves a hole: after a minute windows close again, and go on closing at once."""
    progress, closed = Progress(), []
    for second in range(90):
        boot = replace(
            BOOT,
            at_ns=(100 + second) * S,
            high_sequence=10 + second,
            low_water_ns=(99 + second) * S,
        )
        awaited = marks(progress, live([boot], boot.at_ns))
        held = min(awaited["b1"].high_sequence, 10 + second) - 1  # one of the first ten never comes
        stored = {"b1": Stored(held, boot.at_ns)}
        progress = settle(progress, awaited, stored)
        closed.append(watermark(progress, [boot], stored, boot.at_ns, 1))
    assert closed[:60] == [None] * 60
    assert progress.missing == {"b1": 1}
    assert closed[-1] == (99 + 89) * S
    assert all(later is not None for later in closed[66:])


def test_what_was_only_late_is_not_taken_for_gone():
    """A stream that was behind for a minute and catches up: nothing is missing in the end."""
    progress = Progress()
    for second in range(100):
        boot = replace(BOOT, at_ns=(100 + second) * S, high_sequence=10 + 10 * second)
        awaited = marks(progress, live([boot], boot.at_ns))
        behind = 50 if second < 70 else 0
        stored = {"b1": Stored(max(awaited["b1"].high_sequence - behind, 0), boot.at_ns)}
        progress = settle(progress, awaited, stored)
    assert progress.missing == {}


def test_a_new_boot_keeps_what_was_closed():
    """Progress of one boot is not another's."""
    progress = Progress(reached={"b1": 98 * S})
    newer = Boot("w1", "b2", 101 * S, 5, 0, 100 * S, False)
    assert closes([newer], {"b2": Stored(4, 101 * S)}, progress=progress) is None
