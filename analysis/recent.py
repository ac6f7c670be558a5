"""The newest stored pairs of one contrast, for a look at parts of the traffic; bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.evidence import Contrast
from analysis.metrics import metrics
from analysis.pair_file.pairs import Pairs
from analysis.pair_file.samples import CANDIDATE, CONTROL, PRIMARY
from analysis.queries import sql

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

MOST_PAIRS = 200_000
SEGMENTS = {
    "model": "toString(model)",
    "route": "toString(path)",
    "streamed": "ifNull(toString(streamed), '')",
    "prompt_tokens": "ifNull(toString(prompt_tokens), '')",
    "output_tokens": "ifNull(toString(reference_output_tokens), '')",
    "cached": "ifNull(toString(cached_tokens), '')",
}
"""What each segment is; an answer's length is the reference's, so that it is no effect."""


def recent(
    client: Client, contrast: Contrast, names: list[str], most: int = MOST_PAIRS
) -> Pairs | None:
    """The newest judged pairs, in order of arrival; None where there are none.

    Args:
        client: of the store.
        contrast: which pairs.
        names: the metrics that are wanted.
        most: about so many at the most: whole windows.
    """
    scope: dict[str, Any] = {
        "experiment": contrast.experiment,
        "comparison": contrast.comparison,
        "arm": contrast.arm,
        "reference": contrast.reference,
    }
    rows = client.query(sql("recent"), parameters={**scope, "most": most}).result_rows
    if not rows:
        return None
    columns = _columns(names)
    sides = [side for pair in columns.values() for side in pair]
    measured = [f"ifNull(toFloat64({side}), nan)" for side in sides]
    selected = ", ".join([*measured, *SEGMENTS.values()])
    statement = sql("recent_pairs").replace("-- columns", f", {selected}")
    parameters = {**scope, "from_ns": rows[0][0]}
    result = client.query(statement, parameters=parameters, column_oriented=True)
    if not result.result_columns:
        return None
    return _pairs(result.result_columns, list(columns), contrast.reference)


def _columns(names: list[str]) -> dict[str, tuple[str, str]]:
    """By key of a file of pairs, the store's two columns."""
    wanted = {"failure": "failure", "mismatch": "mismatch"}
    for name in names:
        metric = metrics().get(name)
        if metric is not None and metric.kind == "time":
            wanted[f"{name}_ms"] = f"{name}_ms"
        if metric is not None and metric.kind == "share":
            wanted[name] = name
    if {"tokens_per_s", "output_tokens"} & set(names):
        wanted |= {"output_tokens": "output_tokens", "decode_ms": "decode_ms"}
    return {key: (column, f"reference_{column}") for key, column in wanted.items()}


def _pairs(columns: Any, keys: list[str], reference: str) -> Pairs:
    at_s, weight, *rest = (np.asarray(column) for column in columns)
    there = PRIMARY if reference == "primary" else CONTROL
    tables = {}
    for i, key in enumerate(keys):
        table = np.full((len(at_s), 3), np.nan)
        table[:, CANDIDATE] = rest[2 * i].astype(np.float64)
        table[:, there] = rest[2 * i + 1].astype(np.float64)
        tables[key] = table
    tables["ok"] = 1 - tables.pop("failure")
    words = [column.astype(object) for column in rest[2 * len(keys) :]]
    return Pairs(at_s, weight, tables, dict(zip(SEGMENTS, words, strict=True)))
