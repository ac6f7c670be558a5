"""A comparison's beginning: what it counts from, its number, and where its warm-up ends.

Both are written as events once and read ever after, so that they never move.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from analysis.accounting import Account
from analysis.events import append
from analysis.queries import sql
from analysis.settings import Settings

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

STARTED = "comparison_started"
WARM = "warm_up_ended"
FOREVER_NS = 2**63 - 1
SET_BACK_NS = 3600 * 10**9
"""A warm-up that ended so long after what is looked at was stamped before a clock was set back."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where one arm's comparison begins.

    Attributes:
        start_ns: arrivals before it (UTC, ns) do not count.
        attempt: the how-manieth comparison of this arm's build.
        captured, dropped, lost: the arm's counts at the start; coverage counts from there.
        config_hash, policy_hash, build: what was compared.
        dropped_by: `dropped` by reason.
    """

    start_ns: int
    attempt: int
    captured: int
    dropped: int
    lost: int
    config_hash: str
    policy_hash: str
    build: str
    dropped_by: Mapping[str, int] = field(default_factory=dict)


def started(client: Client, settings: Settings, arm: str) -> list[tuple[str, Start]]:
    """Every comparison of the arm in this experiment, (id, start), oldest first."""
    rows = client.query(
        sql("events"),
        parameters={"experiment": settings.experiment, "arm": arm, "kind": STARTED},
    ).result_rows
    first: dict[str, Start] = {}
    for comparison, detail in rows:
        first.setdefault(comparison, Start(**json.loads(detail)))
    return list(first.items())


def begin(client: Client, settings: Settings, arm: str, account: Account, now_ns: int) -> Start:
    """The comparison's start; it is written if there is none.

    The first comparison of a configuration counts from its first arrival. A later one, of a
    changed policy, counts from the next window on: whoever changed it has seen what was before.
    """
    earlier = started(client, settings, arm)
    comparison = settings.comparisons[arm]
    known = dict(earlier).get(comparison)
    if known is not None:
        return known
    build, width = settings.builds.get(arm, ""), settings.window_seconds * 10**9
    first = all(start.config_hash != settings.config_hash for _, start in earlier)
    start = Start(
        start_ns=0 if first else -(-now_ns // width) * width,
        attempt=1 + sum(start.build == build for _, start in earlier),
        captured=0 if first else account.captured,
        dropped=0 if first else account.dropped_total,
        lost=0 if first else account.lost,
        config_hash=settings.config_hash,
        policy_hash=settings.policy_hash,
        build=build,
        dropped_by={} if first else dict(account.dropped),
    )
    record(client, settings, arm, STARTED, asdict(start), now_ns)
    return start


def warm_up_end(client: Client, settings: Settings, arm: str, start: Start, until_ns: int) -> int:
    """Arrivals up to this instant (UTC, ns) are warm-up; all are while there are too few.

    It ends once. Only where the clock was set back by hours it ends anew, after as many pairs, or
    all that arrives in those hours would be of it.

    Args:
        client: of the store.
        settings: the experiment.
        arm: a candidate, or the control.
        start: of the arm's comparison.
        until_ns: only arrivals before it are counted, so that the end never moves.
    """
    pairs = settings.policy.warm_up.pairs
    if not pairs:
        return start.start_ns - 1
    keys = {"experiment": settings.experiment, "arm": arm}
    events = client.query(sql("events"), parameters={**keys, "kind": WARM}).result_rows
    ends_ns = [
        int(json.loads(detail)["cutoff_ns"])
        for comparison, detail in events
        if comparison == settings.comparisons[arm]
    ]
    known_ns = min(ends_ns, default=FOREVER_NS)
    if ends_ns and known_ns <= until_ns + SET_BACK_NS:
        return known_ns
    rows = client.query(
        sql("warm_up"),
        parameters={
            **keys,
            "config_hash": settings.config_hash,
            "from_ns": start.start_ns,
            "until_ns": until_ns,
            "before": pairs - 1,
        },
    ).result_rows
    if not rows:
        return known_ns
    record(client, settings, arm, WARM, {"cutoff_ns": rows[0][0]}, until_ns)
    return int(rows[0][0])


def record(
    client: Client,
    settings: Settings,
    arm: str,
    kind: str,
    detail: Mapping[str, object],
    now_ns: int,
) -> None:
    """Append one event of the arm's comparison."""
    comparison = settings.comparisons[arm]
    append(client, settings.experiment, kind, arm, detail, now_ns, comparison=comparison)
