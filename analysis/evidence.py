"""Evidence: from stored windows to the samples that the judge reads.

The histograms stay in the store: their sum gives the quantiles, and a second look gives every
window's weight below them. So a judgement costs what its windows cost, not what its pairs cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.compare.sample import Floats, Sample, Windows
from analysis.compare.times import quantile_log_ratio
from analysis.cuts import Cut, cut, sums
from analysis.metrics import is_listed, split
from analysis.policy import Blocks
from analysis.queries import sql
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
    """METRIC.STATISTIC -> its sample; what fills no block is absent, and so is one's own metric.

    Args:
        client: of the store.
        contrast: which windows.
        names: METRIC.STATISTIC each.
        blocks: how windows become blocks.

    Raises:
        Rewritten: a window changed meanwhile.
    """
    wanted = [name for name in names if is_listed(name)]
    figures = _figures(client, contrast, sorted({split(name)[0].name for name in wanted}))
    filled = {name: cut(name, figures, blocks) for name in wanted}
    cuts = {name: one for name, one in filled.items() if one is not None}
    found = _quantiles(client, contrast, {n: c for n, c in cuts.items() if c.p is not None})
    found |= {name: sums(one) for name, one in cuts.items() if one.p is None}
    return {name: found[name] for name in cuts}


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
    if not result.result_columns:
        return {}
    names, *columns = (np.asarray(column) for column in result.result_columns)
    everything = Windows(**dict(zip(COLUMNS, columns, strict=True)))
    return {str(name): everything.where(names == name) for name in np.unique(names)}


def _quantiles(client: Client, contrast: Contrast, cuts: Mapping[str, Cut]) -> dict[str, Sample]:
    """Two queries for all quantiles: where they lie, then what every window has below them."""
    if not cuts:
        return {}
    totals = _histograms(client, contrast, cuts)
    edges = {
        name: [log_quantile(side, one.p or 0) / BIN for side in totals[one.histograms]]
        for name, one in cuts.items()
    }
    known = {name: pair for name, pair in edges.items() if np.isfinite(pair).all()}
    below = _below(client, contrast, cuts, known) if known else {}
    return {
        name: quantile_log_ratio(
            one.windows,
            one.block,
            one.span_s,
            one.p or 0,
            totals[one.histograms],
            below.get(name, (0 * one.windows.n, 0 * one.windows.n)),
        )
        for name, one in cuts.items()
    }


def _histograms(
    client: Client, contrast: Contrast, cuts: Mapping[str, Cut]
) -> dict[tuple[str, int], tuple[Histogram, Histogram]]:
    """This arm's and the reference's, by metric and `until`."""
    wanted = sorted({one.histograms for one in cuts.values()})
    parameters = {"metrics": [name for name, _ in wanted], "untils": [at for _, at in wanted]}
    rows = client.query(
        sql("histograms"), parameters={**_scope(contrast), **parameters}
    ).result_rows
    return {
        (name, until): (_histogram(here, beyond), _histogram(there, reference_beyond))
        for name, until, here, there, beyond, reference_beyond in rows
    }


def _histogram(summed: tuple[list[int], list[float]], infinite: float) -> Histogram:
    bins, counts = summed
    return Histogram(np.asarray(bins, np.int64), np.asarray(counts, np.float64), infinite)


def _below(
    client: Client,
    contrast: Contrast,
    cuts: Mapping[str, Cut],
    edges: Mapping[str, list[float]],
) -> dict[str, tuple[Floats, Floats]]:
    """Each window's weight below both sides' quantiles, by METRIC.STATISTIC.

    Raises:
        Rewritten: these are not the windows of the cut.
    """
    parameters = {
        "names": list(edges),
        "asked": [cuts[name].metric.name for name in edges],
        "untils": [cuts[name].until_s for name in edges],
        "edges": [pair[0] for pair in edges.values()],
        "reference_edges": [pair[1] for pair in edges.values()],
    }
    result = client.query(
        sql("below"), parameters={**_scope(contrast), **parameters}, column_oriented=True
    )
    columns = result.result_columns or [[]] * 4
    names, starts, here, there = (np.asarray(column) for column in columns)
    found = {}
    for name in edges:
        mine = names == name
        if not np.array_equal(starts[mine], cuts[name].windows.starts):
            raise Rewritten("a window was rewritten while it was judged")
        found[name] = here[mine].astype(np.float64), there[mine].astype(np.float64)
    return found
