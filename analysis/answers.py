"""What others ask of the store: the report, the verdicts that stand, a waiver; at any time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.accounting import Account
from analysis.answered import answered
from analysis.behind import behind
from analysis.closing import Progress
from analysis.cost import mirroring_cost
from analysis.elsewhere import elsewhere, told
from analysis.engines import identified
from analysis.evidence import Rewritten
from analysis.gate import SKEW_S
from analysis.moments import shown
from analysis.report import document
from analysis.settings import Settings
from analysis.verdicts import Judged, judge_now
from analysis.waivers import Waiver, expired
from analysis.waivers import waive as store_waiver
from analysis.workers import standing
from analysis.written import JUDGED_AT, judged_at_ns, write, written

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client


def report(client: Client, settings: Settings) -> dict[str, Any]:
    """report.json, judged now from the windows that the service has stored; nothing is written.

    It is exact after any redelivery: windows count once, in their newest version. What arrived
    since the last closed window is `pending`. Before the service has stored any, it holds.
    """
    settings = identified(client, settings)
    accounts = standing(client, settings, Progress(), time.time_ns()).accounts
    judged = {
        candidate: _judged(client, settings, candidate, accounts, in_parts=True)
        for candidate in settings.candidates
    }
    why = elsewhere(client, settings, time.time_ns())
    return document(
        settings,
        {name: told(one.part, why) for name, one in judged.items()},
        {name: one.counted for name, one in judged.items()},
        accounts,
        answered(client, settings),
        {"mirroring": mirroring_cost(client, settings, time.time_ns())},
    )


def _judged(
    client: Client,
    settings: Settings,
    candidate: str,
    accounts: Mapping[str, Account],
    *,
    in_parts: bool = False,
) -> Judged:
    """Judge now; again where the service rewrote a window meanwhile.

    Raises:
        Rewritten: it did so at every try.
    """
    for tries_left in range(4, -1, -1):
        try:
            last = written(client, settings, candidate)
            now_ns = time.time_ns()
            return judge_now(client, settings, candidate, accounts, last, now_ns, in_parts=in_parts)
        except Rewritten:
            if not tries_left:
                raise
    raise AssertionError("unreachable")


def stored(client: Client, settings: Settings) -> dict[str, Any] | None:
    """report.json of the newest verdicts that were written, for the gate; None before the first.

    A candidate without a verdict of its present comparison is absent from it. A promotion holds
    when a waiver that it rests on has ended, and when traffic has come that was not judged yet.
    """
    settings = identified(client, settings)
    found = {name: written(client, settings, name) for name in settings.candidates}
    now_ns = time.time_ns()
    parts = {
        name: as_it_stands(one.part, one.judged_ns, now_ns, behind(client, settings, name, now_ns))
        for name, one in found.items()
        if one is not None
    }
    if not parts:
        return None
    why = elsewhere(client, settings, now_ns)
    return document(settings, {name: told(part, why) for name, part in parts.items()}, {}, {})


def as_it_stands(
    written_part: Mapping[str, Any], at_ns: int, now_ns: int, missed: str | None = None
) -> dict[str, Any]:
    """A written verdict as it stands now.

    Args:
        written_part: what was written of a candidate.
        at_ns: when (UTC, ns).
        now_ns: the wall clock; waivers end by it.
        missed: what came since and was not judged, in words.
    """
    judged_ns = judged_at_ns(written_part, at_ns)
    part = {**written_part, JUDGED_AT: shown(judged_ns)}
    ended, missed = expired(part, now_ns), missed or _set_back(judged_ns, now_ns)
    if part["verdict"] != "promote" or not (ended or missed):
        return part
    why = missed or f"a waiver has ended since this was judged: {', '.join(ended)}"
    return {**part, "verdict": "hold", "reason": why}


def _set_back(judged_ns: int, now_ns: int) -> str:
    """An analysis that runs judges anew within a minute of it, by the clock as it is now."""
    ahead_s = (judged_ns - now_ns) // 10**9
    if ahead_s <= SKEW_S:
        return ""
    return f"this was judged {ahead_s} s in the future: a clock was set back since, or is wrong"


def waive(client: Client, settings: Settings, candidate: str, waiver: Waiver) -> Judged:
    """Store a waiver, and judge the candidate with it: the gate reads what was written."""
    settings, now_ns = identified(client, settings), time.time_ns()
    store_waiver(client, settings.experiment, candidate, waiver, now_ns)
    accounts = standing(client, settings, Progress(), now_ns).accounts
    judged = _judged(client, settings, candidate, accounts)
    write(client, settings, candidate, judged, now_ns)
    return judged
