"""Whether the verdicts that are written are those of the files at hand: an analysis that runs has
read its configuration and policy at its start, and a change of either is a new comparison.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.moments import shown
from analysis.queries import sql
from analysis.settings import Settings

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

RUNS_NS = 180 * 10**9
"""An analysis that runs writes each verdict anew within a minute, slow looks and rests apart."""


def elsewhere(client: Client, settings: Settings, now_ns: int) -> str | None:
    """Why nothing is judged by the settings at hand, and the way out; None: they are judged by.

    Args:
        client: of the store.
        settings: as the files say now.
        now_ns: the wall clock (UTC, ns).
    """
    scope = {"experiment": settings.experiment}
    rows = client.query(sql("newest"), parameters=scope).result_rows
    if not rows:
        return None
    config_hash, policy_hash, at_ns = rows[0]
    return _other(settings, config_hash, policy_hash, at_ns, now_ns)


def _other(
    settings: Settings, config_hash: str, policy_hash: str, at_ns: int, now_ns: int
) -> str | None:
    pairs = (
        ("configuration", config_hash, settings.config_hash),
        ("policy", policy_hash, settings.policy_hash),
    )
    other = [(word, there, here) for word, there, here in pairs if there != here]
    if not other:
        return None
    what = " and another ".join(
        f"{word} (hash {there}, this file's hash {here})" for word, there, here in other
    )
    if now_ns - at_ns < RUNS_NS:
        return f"the last analysis has another {what}: restart it"
    last = f"the last verdict, of {shown(at_ns)}"
    return f"{last}, has another {what}: start the analysis with this file"


def told(part: Mapping[str, Any], why: str | None) -> dict[str, Any]:
    """A candidate's part of the report that says so: as a warning, and before what holds it."""
    if why is None:
        return dict(part)
    reason = f"{why}; {part['reason']}" if part["verdict"] == "hold" else part["reason"]
    return {**part, "reason": reason, "warnings": [why, *part["warnings"]]}
