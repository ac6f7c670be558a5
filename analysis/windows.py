"""Windows: which of them have changed, and their building. A window is rewritten as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from analysis.arrivals import Arrivals, Range, changed
from analysis.comparison import FOREVER_NS, Start, record, warm_up_end
from analysis.queries import sql
from analysis.settings import Settings

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

PRIMARY = "primary"
LATE = "late"
STATEMENTS = ("pairs", "windows_times", "windows_shares", "windows_ratios")
PROBE_STATEMENTS = ("pairs_probes", "windows_probes")
NOTHING: tuple[object, ...] = (0, {}, {}, 0, {})
"""The counts of a window without a pair, as `totals` has them."""
_TOTALS = (
    "experiment",
    "comparison",
    "candidate",
    "reference_arm",
    "window",
    "seconds",
    "exchanges",
    "captured",
    "pairs",
    "excluded",
    "undefined",
    "probes",
    "probes_excluded",
    "version",
)


def build(
    client: Client,
    settings: Settings,
    arm: str,
    start: Start,
    held: list[Arrivals],
    now_ns: int,
) -> int:
    """Build the arm's windows among `held` that have changed.

    Args:
        client: of the store.
        settings: the experiment.
        arm: a candidate, or the control.
        start: of the arm's comparison.
        held: closed windows with what they hold, counted before anything is built from them.
        now_ns: the version of what is written (UTC, ns).

    Returns:
        How many windows were built.
    """
    seconds = settings.window_seconds
    mine = [window for window in held if window.start_s * 10**9 >= start.start_ns]
    if not mine:
        return 0
    made_of = _built(client, settings, arm, mine[0].start_s, mine[-1].start_s + seconds)
    ranges = list(changed(mine, made_of, seconds))
    if not ranges:
        return 0
    warm_up_ns = warm_up_end(client, settings, arm, start, ranges[-1].until_s * 10**9)
    for run in ranges:
        _build(client, settings, arm, run, warm_up_ns, now_ns)
    _count_late(client, settings, arm, made_of, ranges, now_ns)
    return sum(len(run.windows) for run in ranges)


def _built(
    client: Client, settings: Settings, arm: str, from_s: int, until_s: int
) -> dict[int, int]:
    rows = client.query(
        sql("built"),
        parameters={
            "experiment": settings.experiment,
            "comparison": settings.comparisons[arm],
            "arm": arm,
            "from_ns": from_s * 10**9,
            "until_ns": until_s * 10**9,
        },
    ).result_rows
    return {int(start_s): int(exchanges) for start_s, exchanges in rows}


def _build(
    client: Client,
    settings: Settings,
    arm: str,
    run: Range,
    warm_up_ns: int,
    version: int,
) -> None:
    """Pairs, then windows, then the totals that make them count, all in one version."""
    references = _references(settings, arm)
    parameters = {
        **_contrast(settings, arm, references),
        "seconds": settings.window_seconds,
        "from_ns": run.from_s * 10**9,
        "until_ns": run.until_s * 10**9,
        "warm_up_ns": min(warm_up_ns, FOREVER_NS),
        "version": version,
    }
    probed = arm != settings.control and any(window.probed for window in run.windows)
    for name in (*STATEMENTS, *(PROBE_STATEMENTS if probed else ())):
        client.command(sql(name), parameters=parameters)
    counts = client.query(sql("totals"), parameters=parameters).result_rows
    judged = {(start_s, reference): counted for start_s, reference, *counted in counts}
    rows = [
        [
            settings.experiment,
            settings.comparisons[arm],
            arm,
            reference,
            datetime.fromtimestamp(window.start_s, UTC),
            settings.window_seconds,
            window.exchanges,
            window.by_arm.get(arm, 0),
            *judged.get((window.start_s, reference), NOTHING),
            version,
        ]
        for window in run.windows
        for reference in references
    ]
    client.insert("window_totals", rows, column_names=_TOTALS)


def _references(settings: Settings, arm: str) -> tuple[str, ...]:
    """Against whom an arm is compared: the primary, and a candidate against the control too."""
    return (PRIMARY,) if settings.control in {None, arm} else (PRIMARY, settings.control)


def _contrast(settings: Settings, arm: str, references: tuple[str, ...]) -> dict[str, Any]:
    """What the statements must know of the two sides."""
    return {
        "experiment": settings.experiment,
        "config_hash": settings.config_hash,
        "comparison": settings.comparisons[arm],
        "arm": arm,
        "control": references[1] if len(references) > 1 else "",
        "primary": PRIMARY,
        "copies": settings.copies.get(arm, 1),
        "control_copies": settings.copies.get(references[-1], 1),
        "deadline_ms": settings.deadlines_s.get(arm, 0.0) * 1000,
        "control_deadline_ms": settings.deadlines_s.get(references[-1], 0.0) * 1000,
        "slack": settings.policy.slack_fraction,
    }


def _count_late(
    client: Client,
    settings: Settings,
    arm: str,
    made_of: Mapping[int, int],
    ranges: list[Range],
    now_ns: int,
) -> None:
    """Arrivals that came after their window had been built are counted, once a build."""
    late = [
        window.exchanges - made_of[window.start_s]
        for run in ranges
        for window in run.windows
        if window.exchanges > made_of.get(window.start_s, window.exchanges)
    ]
    if late:
        record(client, settings, arm, LATE, {"windows": len(late), "exchanges": sum(late)}, now_ns)
