"""When mirroring ends by itself: by pairs, by hours, by cost, with a final verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.engines import identified
from analysis.events import append
from analysis.queries import sql
from analysis.settings import Settings, Stop
from analysis.written import written

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

FINAL = frozenset({"promote", "reject"})
"""A reject stays for its comparison. A promote may be taken back by pairs that were under way; then
mirroring starts again."""
ENDED = "mirroring_ended"

Tell = Callable[[Mapping[str, str]], bool]
"""Told why each arm has ended (those that have not are absent); whether that is news."""


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a candidate's comparison has come."""

    verdict: str = ""
    pairs: int = 0
    first_s: int | None = None
    cost: float = 0.0


def reasons(stop: Stop, reached: Reached, now_s: float) -> Iterator[str]:
    """Why a candidate's mirroring has ended; pure."""
    if stop.on_verdict and reached.verdict in FINAL:
        yield f"verdict: {reached.verdict}"
    if stop.pairs is not None and reached.pairs >= stop.pairs:
        yield f"stop_at.pairs: {reached.pairs:,} complete pairs"
    hours = 0.0 if reached.first_s is None else (now_s - reached.first_s) / 3600
    if stop.hours is not None and hours >= stop.hours:
        yield f"stop_at.hours: {hours:.1f} hours since the first arrival"
    if stop.cost is not None and reached.cost >= stop.cost:
        yield f"stop_at.cost: {reached.cost:.2f} spent"


def ended(client: Client, settings: Settings, now_s: float) -> dict[str, str]:
    """Arm → why its mirroring has ended; the control's ends with the last candidate's."""
    settings = identified(client, settings)
    found = {
        name: why
        for name in settings.candidates
        if (why := next(reasons(settings.stop, _reached(client, settings, name), now_s), ""))
    }
    if settings.control is not None and len(found) == len(settings.candidates) > 0:
        found[settings.control] = "every candidate's mirroring has ended"
    return found


def _reached(client: Client, settings: Settings, name: str) -> Reached:
    last = written(client, settings, name) if settings.stop.on_verdict else None
    scope = {**settings.scope(name), "copies": settings.copies.get(name, 1)}
    rows = client.query(sql("progress"), parameters=scope).result_rows
    pairs, first_s = rows[0] if rows else (0, None)
    return Reached(last.verdict if last else "", int(pairs), first_s, _cost(client, settings, name))


def _cost(client: Client, settings: Settings, name: str) -> float:
    if settings.stop.cost is None:
        return 0.0
    scope = {"experiment": settings.experiment, "config_hash": settings.config_hash, "arm": name}
    ((read, wrote),) = client.query(sql("tokens"), parameters=scope).result_rows
    per_prompt, per_completion = settings.stop.prices[name]
    return float(read * per_prompt + wrote * per_completion) / 1e6


def stopper(settings: Settings, tell: Tell) -> Callable[[Client], None]:
    """What the service does after each look: tell which arms have ended, and write down news."""

    def stop(client: Client) -> None:
        now_ns = time.time_ns()
        found = ended(client, settings, now_ns / 1e9)
        if tell(found):
            append(client, settings.experiment, ENDED, "", {"ended": found}, now_ns)

    return stop
