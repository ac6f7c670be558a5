"""Evidence: from stored windows to the samples that the judge reads.

The histograms stay in the store: their sum gives the quantiles, and a second look gives every
window's weight below them. So a judgement costs what its windows cost, not what its pairs cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.compare.sample import Floats, Ints, Sample, Windows
from analysis.compare.shares import share_difference
from analysis.compare.sums import ratio_of_sums
from analysis.compare.times import mean_log_ratio, quantile_log_ratio
from analysis.metrics import split
from analysis.policy import Blocks
from analysis.queries import sql
from analysis.statistics.blocks import block_of
from analysis.statistics.quantile import BIN, Histogram, log_quantile

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client


class Rewritten(Exception):
    """A window changed between two queries of one judgement; ask again."""


COLUMNS = tuple(field.name for field in fields(Windows))


@dataclass(frozen=True, slots=True)
class Contrast:
    """Which windows: one arm against one reference in one comparison."""

    experiment: str
    comparison: str
    arm: str
    reference: str


def samples(
    client: Client, contrast: Contrast, names: Iterable[str], blocks: Blocks
) -> dict[str, Sample]:
    """METRIC.STATISTIC -> its sample; what fills no block is absent.

    Args:
        client: of the store.
        contrast: which windows.
        names: METRIC.STATISTIC each.
        blocks: how windows become blocks.
    """
    wanted = list(names)
    figures = _figures(client, contrast, sorted({split(name)[0].name for name in wanted}))
    found = {}
    for name in wanted:
        metric, statistic = split(name)
        windows = figures.get(metric.name)
        if windows is None:
            continue
        every, least = _slices(blocks)
        block = block_of(windows.starts, windows.n, every, least)
        if block.max() < 0:
            continue
        full, block = windows.where(block >= 0), block[block >= 0]
        seconds = blocks.window_seconds
        span_s = float(full.starts[-1] + seconds - full.starts[0])
        if metric.kind == "share":
            found[name] = share_difference(full, block, span_s)
        elif metric.kind == "ratio":
            found[name] = ratio_of_sums(full, block, span_s)
        elif statistic == "mean":
            found[name] = mean_log_ratio(full, block, span_s)
        else:
            p = int(statistic.removeprefix("p")) / 100
            found[name] = _quantile(client, contrast, metric.name, p, full, block, span_s)
    return found


def _slices(blocks: Blocks) -> tuple[int, int]:
    """A slice's length in seconds, and the least pairs of a block."""
    if blocks.by == "count":
        return 1, blocks.pairs or 1
    return int(blocks.every), blocks.min_pairs


def _scope(contrast: Contrast) -> dict[str, Any]:
    return {
        "experiment": contrast.experiment,
        "comparison": contrast.comparison,
        "arm": contrast.arm,
        "reference": contrast.reference,
    }


def _figures(client: Client, contrast: Contrast, metrics: list[str]) -> dict[str, Windows]:
    parameters = {**_scope(contrast), "metrics": metrics}
    result = client.query(sql("figures"), parameters=parameters, column_oriented=True)
    if not result.row_count:
        return {}
    names = np.asarray(result.result_columns[0])
    columns = [np.asarray(column) for column in result.result_columns[1:]]
    everything = Windows(**dict(zip(COLUMNS, columns, strict=True)))
    return {str(name): everything.where(names == name) for name in np.unique(names)}


def _quantile(
    client: Client,
    contrast: Contrast,
    metric: str,
    p: float,
    windows: Windows,
    block: Ints,
    span_s: float,
) -> Sample:
    until_ns = (int(windows.starts[-1]) + 1) * 10**9
    parameters = {**_scope(contrast), "metric": metric, "until_ns": until_ns}
    here, there, beyond, reference_beyond = client.query(
        sql("histogram"), parameters=parameters
    ).result_rows[0]
    totals = _histogram(here, beyond), _histogram(there, reference_beyond)
    edges = [log_quantile(total, p) / BIN for total in totals]
    below = _below(client, parameters, edges, windows.starts)
    return quantile_log_ratio(windows, block, span_s, p, totals, below)


def _histogram(summed: tuple[list[int], list[float]], infinite: float) -> Histogram:
    return Histogram(
        np.asarray(summed[0], dtype=np.int64), np.asarray(summed[1], dtype=np.float64), infinite
    )


def _below(
    client: Client, parameters: dict[str, Any], edges: list[float], starts: Ints
) -> tuple[Floats, Floats]:
    """Each window's weight below both quantiles; zeros where one is infinite and nothing is known.

    Raises:
        Rewritten: these are not the windows of `starts`.
    """
    if not np.isfinite(edges).all():
        return np.zeros(len(starts)), np.zeros(len(starts))
    result = client.query(
        sql("below"),
        parameters={**parameters, "edge": edges[0], "reference_edge": edges[1]},
        column_oriented=True,
    )
    found, here, there = (np.asarray(column) for column in result.result_columns)
    if not np.array_equal(found, starts):
        raise Rewritten("a window was rewritten while it was judged")
    return here.astype(np.float64), there.astype(np.float64)
