"""Engines as they name themselves: a fingerprint that was never seen starts a new comparison.

The first fingerprint of each arm is what the comparison is about, so knowing it changes nothing;
any further one of the primary, the control or the candidate gives the comparison another identity.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from analysis.events import append
from analysis.queries import sql
from analysis.settings import Settings

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

SEEN = "engine_seen"
MOST = 16
"""So many fingerprints of one arm are believed; an engine with one an answer names nothing."""
PRIMARY = "primary"


def identified(client: Client, settings: Settings) -> Settings:
    """The settings with every comparison's present identity; reads only."""
    return _with(settings, _known(client, settings))


def notice(
    client: Client, settings: Settings, from_ns: int, until_ns: int, now_ns: int
) -> Settings:
    """Record fingerprints that are new among the arrivals of [from, until); then `identified`."""
    known = _known(client, settings)
    rows = client.query(
        sql("fingerprints"),
        parameters={
            "experiment": settings.experiment,
            "config_hash": settings.config_hash,
            "from_ns": from_ns,
            "until_ns": until_ns,
        },
    ).result_rows
    new = [(arm, print_) for arm, print_ in rows if print_ not in known.get(arm, ())]
    for arm, fingerprint in new:
        if len(known.setdefault(arm, [])) < MOST:
            known[arm].append(fingerprint)
            _record(client, settings, arm, fingerprint, now_ns)
    return _with(settings, known)


def _known(client: Client, settings: Settings) -> dict[str, list[str]]:
    """Each arm's fingerprints under this configuration, in the order in which they were seen."""
    scope = {"experiment": settings.experiment, "kind": SEEN}
    found: dict[str, list[str]] = {}
    for arm, detail in client.query(sql("engines"), parameters=scope).result_rows:
        told = json.loads(detail)
        if told["config_hash"] == settings.config_hash:
            found.setdefault(arm, []).append(told["fingerprint"])
    return found


def _record(client: Client, settings: Settings, arm: str, fingerprint: str, now_ns: int) -> None:
    detail = {"config_hash": settings.config_hash, "fingerprint": fingerprint}
    comparison = settings.comparisons.get(arm, "")
    append(client, settings.experiment, SEEN, arm, detail, now_ns, comparison=comparison)


def _with(settings: Settings, known: Mapping[str, list[str]]) -> Settings:
    comparisons = {
        arm: _identity(comparison, {name: known.get(name, []) for name in _sides(settings, arm)})
        for arm, comparison in settings.comparisons.items()
    }
    return replace(settings, comparisons=comparisons)


def _sides(settings: Settings, arm: str) -> set[str]:
    return {PRIMARY, arm} | ({settings.control} if settings.control else set())


def _identity(comparison: str, known: Mapping[str, list[str]]) -> str:
    """The identity as it is while each arm has one fingerprint, else another one."""
    later = {arm: sorted(prints) for arm, prints in known.items() if len(prints) > 1}
    if not later:
        return comparison
    text = json.dumps([comparison, later], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
