"""Arrivals by window, and runs of neighbouring windows that have changed since they were built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.queries import sql
from analysis.settings import Settings

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

MOST_EXCHANGES = 200_000
"""The most that one statement pairs, so that its memory is bounded."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """One window: its start (s since 1970), its exchanges, how many are of each arm, any probes."""

    start_s: int
    exchanges: int
    by_arm: Mapping[str, int]
    probed: bool = False


@dataclass(frozen=True, slots=True)
class Range:
    """Windows that are built with one statement each: [from, until) and what they hold."""

    from_s: int
    until_s: int
    windows: tuple[Arrivals, ...]


def arrivals(client: Client, settings: Settings, from_ns: int, until_ns: int) -> list[Arrivals]:
    """Windows of [from, until) that hold anything, ascending."""
    rows = client.query(
        sql("arrivals"),
        parameters={
            "experiment": settings.experiment,
            "config_hash": settings.config_hash,
            "seconds": settings.window_seconds,
            "from_ns": from_ns,
            "until_ns": until_ns,
        },
    ).result_rows
    return [Arrivals(*row) for row in rows]


def changed(
    held: list[Arrivals], made_of: Mapping[int, int], seconds: int, most: int = MOST_EXCHANGES
) -> Iterator[Range]:
    """Runs of neighbouring windows that are not built, or built of another number of exchanges.

    Args:
        held: what the store holds, ascending.
        made_of: exchanges of which each window was built, by its start.
        seconds: a window's length.
        most: a run ends before it holds more exchanges than this, unless one window does alone.
    """
    run: list[Arrivals] = []
    for window in held:
        stands = made_of.get(window.start_s) == window.exchanges
        full = run and sum(w.exchanges for w in run) + window.exchanges > most
        if run and (stands or full):
            yield Range(run[0].start_s, run[-1].start_s + seconds, tuple(run))
            run = []
        if not stands:
            run.append(window)
    if run:
        yield Range(run[0].start_s, run[-1].start_s + seconds, tuple(run))
