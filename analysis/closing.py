"""Which windows are closed: how far every worker has come, and what of it the store holds. Pure.

A window closes when every live worker's low water has passed it and every sequence up to that
record is stored or counted as dropped. A worker that is dead holds nothing back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

DEAD_AFTER_NS = 30 * 10**9
"""A worker is dead when others were heard of for so long after its last record."""
SILENT_AFTER_NS = 300 * 10**9
"""With nobody heard of it may be the collector that is away: patience, before they are dead."""
PATIENCE_NS = 5 * 10**9
"""A mark that is not reached by then is given up for the worker's newest one."""
GONE_AFTER_NS = 60 * 10**9
"""What no mark was reached without for so long is gone: longer than a group's rebalance takes."""
AHEAD_NS = 30 * 10**9
"""A record that is so far ahead of our clock was stamped before a clock was set back, or by a host
whose clock is wrong."""
WATCHED_NS = 60 * 10**9
"""More between two looks counts as so much: the store was away, and nobody could be heard."""


@dataclass(frozen=True, slots=True)
class Boot:
    """A worker's newest record: the mark up to which the store is waited for."""

    worker: str
    boot_id: str
    at_ns: int
    high_sequence: int
    dropped_sequences: int
    low_water_ns: int | None
    final: bool


@dataclass(frozen=True, slots=True)
class Still:
    """Since a boot's newest record is of `at_ns` (UTC) we have watched for `watched_ns`."""

    at_ns: int
    watched_ns: int = 0


@dataclass(frozen=True, slots=True)
class Stored:
    """What the store holds of one boot: exchanges up to its mark, its last arrival (UTC, ns)."""

    awaited: int
    last_ns: int


@dataclass(frozen=True)
class Progress:
    """What is remembered between two looks.

    Attributes:
        marks: by boot, the record that is waited for. Under load the newest record is always a
            little ahead of the store; a mark that stands still is reached.
        reached: by boot, the low water (UTC, ns) of the newest mark that was reached.
        since: by boot, the time (UTC, ns) of the first mark since the last one that was reached.
        missing: by boot, how many records will never be stored: dead letters, a lost stream file.
        still: by boot, for how long its newest record has been the newest.
        looked_ns: the clock that nobody sets at the last look; None: there was none.
    """

    marks: Mapping[str, Boot] = field(default_factory=dict)
    reached: Mapping[str, int] = field(default_factory=dict)
    since: Mapping[str, int] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)
    still: Mapping[str, Still] = field(default_factory=dict)
    looked_ns: int | None = None


def watched(progress: Progress, boots: Iterable[Boot], steady_ns: int) -> Progress:
    """With how long every boot's record has stood still, by a clock that nobody sets (ns)."""
    before_ns = steady_ns if progress.looked_ns is None else progress.looked_ns
    passed_ns = min(steady_ns - before_ns, WATCHED_NS)
    still = {}
    for boot in boots:
        old = progress.still.get(boot.boot_id)
        same = old is not None and old.at_ns == boot.at_ns
        still[boot.boot_id] = Still(boot.at_ns, old.watched_ns + passed_ns if old and same else 0)
    return replace(progress, still=still, looked_ns=steady_ns)


def live(
    boots: Iterable[Boot], now_ns: int, still: Mapping[str, Still] | None = None
) -> dict[str, Boot]:
    """Boots that may still send something: each worker's newest, not final, heard of lately.

    Lately: as the store hears it. A collector that lags makes nobody dead. What is ahead of our
    clock is of before it was set back: it hides no newer boot, and makes nobody else dead. Its
    stamp does not say how old it is, so that it is `still` for as long as we have watched it.
    """
    newest: dict[str, Boot] = {}
    for boot in sorted(boots, key=lambda boot: (not _ahead(boot, now_ns), boot.at_ns)):
        newest[boot.worker] = boot
    known = still or {}
    newest = {
        worker: boot
        for worker, boot in newest.items()
        if known.get(boot.boot_id, Still(0)).watched_ns <= SILENT_AFTER_NS
    }
    heard_ns: dict[bool, int] = {}
    for boot in newest.values():
        ahead = _ahead(boot, now_ns)
        heard_ns[ahead] = max(boot.at_ns, heard_ns.get(ahead, 0))
    return {
        boot.boot_id: boot
        for boot in newest.values()
        if not boot.final
        and heard_ns[_ahead(boot, now_ns)] - boot.at_ns <= DEAD_AFTER_NS
        and now_ns - boot.at_ns <= SILENT_AFTER_NS
    }


def _ahead(boot: Boot, now_ns: int) -> bool:
    return boot.at_ns > now_ns + AHEAD_NS


def marks(progress: Progress, alive: Mapping[str, Boot]) -> dict[str, Boot]:
    """The record to wait for, for every live boot: the old one while there is patience, and while
    the clock was not set back.
    """
    kept = {}
    for boot_id, boot in alive.items():
        old = progress.marks.get(boot_id, boot)
        kept[boot_id] = old if 0 <= boot.at_ns - old.at_ns < PATIENCE_NS else boot
    return kept


def patient(progress: Progress) -> Progress:
    """After the clock was set: no time that it shows tells how long anything was waited for."""
    return replace(progress, marks={}, since={})


def settle(
    progress: Progress, awaited: Mapping[str, Boot], stored: Mapping[str, Stored]
) -> Progress:
    """Move `reached` to the marks that the store has caught up with; those are done with.

    A record that never comes must not keep a window open for ever: after `GONE_AFTER_NS` what is
    missing is taken to be gone. The least that was ever missing since is what truly is: the rest
    was on its way.
    """
    waiting: dict[str, Boot] = {}
    reached, since, missing = dict[str, int](), dict[str, int](), dict[str, int]()
    for boot_id, mark in awaited.items():
        held = stored[boot_id].awaited if boot_id in stored else 0
        short = max(mark.high_sequence - mark.dropped_sequences - held, 0)
        gone = progress.missing.get(boot_id, 0)
        since[boot_id] = min(progress.since.get(boot_id, mark.at_ns), mark.at_ns)
        if short <= gone or mark.at_ns - since[boot_id] >= GONE_AFTER_NS:
            del since[boot_id]
            gone = short
            if mark.low_water_ns is not None:
                reached[boot_id] = mark.low_water_ns
        else:
            waiting[boot_id] = mark
        if gone:
            missing[boot_id] = gone
        if boot_id not in reached and boot_id in progress.reached:
            reached[boot_id] = progress.reached[boot_id]
    return Progress(waiting, reached, since, missing, progress.still, progress.looked_ns)


def watermark(
    progress: Progress,
    boots: Iterable[Boot],
    stored: Mapping[str, Stored],
    now_ns: int,
    seconds: int,
) -> int | None:
    """Windows that end at or before this instant (UTC, ns) are closed; None: none is.

    A boot that has exchanges and no record yet holds everything back until its first record, or
    until it is dead. With nobody alive everything that arrived is closed.
    """
    known = list(boots)
    alive = live(known, now_ns, progress.still)
    named = {boot.boot_id for boot in known}
    unheard = [
        boot_id
        for boot_id, held in stored.items()
        if boot_id not in named and abs(now_ns - held.last_ns) <= DEAD_AFTER_NS
    ]
    if unheard or any(boot_id not in progress.reached for boot_id in alive):
        return None
    width = seconds * 10**9
    if alive:
        return min(progress.reached[boot_id] for boot_id in alive) // width * width
    return (max((held.last_ns for held in stored.values()), default=-1) // width + 1) * width
