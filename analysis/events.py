"""What happened to an experiment, appended to `events`: who or what, when, and its detail."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from analysis.moments import instant

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

COLUMNS = ("at", "experiment", "kind", "comparison", "candidate", "detail")


def append(
    client: Client,
    experiment: str,
    kind: str,
    arm: str,
    detail: Mapping[str, object],
    now_ns: int,
    *,
    comparison: str = "",
) -> None:
    """Append one event.

    Args:
        client: the store's.
        experiment: its name.
        kind: what it is, one of the words of its writer.
        arm: whose it is; empty: the whole experiment's.
        detail: what else there is to say.
        now_ns: when (UTC).
        comparison: whose it is, where it is one comparison's.
    """
    row = [instant(now_ns), experiment, kind, comparison, arm, json.dumps(detail)]
    client.insert("events", [row], column_names=COLUMNS)
