"""Experiments that the store knows and no configuration at hand describes: what was written."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from analysis.answers import as_it_stands
from analysis.closing import Progress
from analysis.queries import sql
from analysis.report.document import document
from analysis.settings import Settings
from analysis.workers import standing

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client


def experiments(client: Client) -> list[str]:
    """Names of all experiments in the store, the one heard of last first."""
    return [str(name) for (name,) in client.query(sql("experiments")).result_rows]


def unknown(client: Client, experiment: str) -> str:
    """Why there is no report of an experiment, and which ones there are."""
    known = experiments(client)
    if experiment in known:
        return f"{experiment} has no verdict yet"
    there = f"there are: {', '.join(known)}" if known else "the store has none"
    return f"no experiment is named {experiment}; {there}"


def recorded(client: Client, experiment: str) -> dict[str, Any] | None:
    """report.json of the experiment's last written verdicts; None where none was written.

    Nothing is judged anew: that takes the experiment's own configuration and policy. `judged_at`
    says how old each is; a promotion whose waiver has ended holds.
    """
    rows = client.query(sql("recorded"), parameters={"experiment": experiment}).result_rows
    if not rows:
        return None
    settings = Settings(
        experiment=experiment,
        config_hash=rows[0][4],
        candidates=tuple(row[0] for row in rows),
        comparisons={row[0]: row[1] for row in rows},
    )
    now_ns = time.time_ns()
    parts = {row[0]: as_it_stands(json.loads(row[2]), row[5], now_ns) for row in rows}
    accounts = standing(client, settings, Progress(), now_ns).accounts
    tree = {**document(settings, parts, {}, accounts), "policy_hash": rows[0][3]}
    del tree["policy"]  # of it the store has the hash alone
    return tree
