"""One look: find closed windows, build those that changed, judge, write verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from analysis.accounting import Account
from analysis.arrivals import arrivals
from analysis.closing import Progress
from analysis.comparison import begin
from analysis.engines import identified, notice
from analysis.queries import sql
from analysis.settings import Settings
from analysis.verdicts import judge_now
from analysis.windows import build
from analysis.workers import Standing, standing
from analysis.written import write, written

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

LOOK_BACK_NS = 3600 * 10**9
"""Late arrivals are looked for in the last hour at every look, and everywhere at first and last."""
JUDGE_EVERY_NS = 15 * 10**9
"""Without new windows it is judged again after this long; an unchanged verdict is written then."""
STALE_NS = 60 * 10**9
"""An unchanged verdict is written again after this long: its age says that it was judged anew."""

log = structlog.get_logger("analysis")


@dataclass(frozen=True, slots=True)
class Newest:
    """A candidate's newest verdict; `coverage` None: unknown."""

    verdict: str
    coverage: float | None


@dataclass(frozen=True)
class Memory:
    """What one look leaves to the next: all of it can be found again, at more cost."""

    progress: Progress = field(default_factory=Progress)
    watermark_ns: int = 0
    judged_ns: int = 0
    stamp_ns: int = 0
    """The last version that was given: it grows also where the clock was set back."""
    ended: bool = False
    """No worker may still send something: another look finds nothing new."""
    verdicts: Mapping[str, Newest] = field(default_factory=dict)
    """By candidate, as it was judged last."""


def look(
    client: Client, settings: Settings, memory: Memory, now_ns: int, *, whole: bool = False
) -> Memory:
    """Once: find closed windows, build those that changed, judge, write verdicts.

    Args:
        client: of the store.
        settings: the experiment.
        memory: of the look before; at first an empty one.
        now_ns: the wall clock (UTC, ns); the version too of what is built, if it is the highest.
        whole: look at every window and write the verdict if anything in it has changed.
    """
    state = standing(client, settings, memory.progress, now_ns)
    settings = _identified(client, settings, memory, state, now_ns, whole=whole)
    stamp_ns = max(now_ns, 1 + (memory.stamp_ns or _newest_version(client, settings)))
    built = _build_closed(client, settings, memory, state, now_ns, stamp_ns, whole=whole)
    due = whole or abs(now_ns - memory.judged_ns) >= JUDGE_EVERY_NS
    verdicts = memory.verdicts
    if built or due:
        verdicts = {
            candidate: _judge_one(client, settings, candidate, state, now_ns, whole=whole)
            for candidate in settings.candidates
        }
    return Memory(
        progress=state.progress,
        watermark_ns=state.watermark_ns or memory.watermark_ns,
        judged_ns=now_ns if built or due else memory.judged_ns,
        stamp_ns=stamp_ns,
        ended=state.ended,
        verdicts=verdicts,
    )


def _identified(
    client: Client, settings: Settings, memory: Memory, state: Standing, now_ns: int, *, whole: bool
) -> Settings:
    """The settings with the comparisons' identities by the engines that were seen until now."""
    if state.watermark_ns is None:
        return identified(client, settings)
    from_ns = 0 if whole else max(0, _back(memory, state.watermark_ns))
    return notice(client, settings, from_ns, state.watermark_ns, now_ns)


def _build_closed(
    client: Client,
    settings: Settings,
    memory: Memory,
    state: Standing,
    now_ns: int,
    stamp_ns: int,
    *,
    whole: bool,
) -> int:
    """How many windows were built. A comparison begins by the clock; what is built replaces."""
    starts = {
        arm: begin(client, settings, arm, state.accounts.get(arm, Account()), now_ns)
        for arm in settings.arms
    }
    if state.watermark_ns is None or not starts:
        return 0
    earliest = min(start.start_ns for start in starts.values())
    from_ns = earliest if whole else max(earliest, _back(memory, state.watermark_ns))
    held = arrivals(client, settings, from_ns, state.watermark_ns)
    return sum(build(client, settings, arm, start, held, stamp_ns) for arm, start in starts.items())


def _newest_version(client: Client, settings: Settings) -> int:
    """What an earlier process has given, by a clock that may have been set back since."""
    scope = {"experiment": settings.experiment}
    return int(client.query(sql("newest_version"), parameters=scope).result_rows[0][0])


def _back(memory: Memory, watermark_ns: int) -> int:
    """From where on late arrivals are looked for; a clock that was set back takes it along."""
    return min(memory.watermark_ns, watermark_ns) - LOOK_BACK_NS


def _judge_one(
    client: Client,
    settings: Settings,
    candidate: str,
    state: Standing,
    now_ns: int,
    *,
    whole: bool,
) -> Newest:
    last = written(client, settings, candidate)
    judged = judge_now(client, settings, candidate, state.accounts, last, now_ns)
    newest = Newest(judged.judgement.verdict, judged.part["coverage"])
    if last is not None and newest.verdict == last.verdict:
        age_ns = abs(now_ns - last.judged_ns)
        due = whole or age_ns >= JUDGE_EVERY_NS
        stale = age_ns >= STALE_NS
        if not due or (judged.part == last.part and not stale):
            return newest
    write(client, settings, candidate, judged, now_ns)
    log.info("verdict", candidate=candidate, verdict=newest.verdict)
    return newest
