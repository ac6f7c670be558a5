"""Cuts: the windows of one METRIC.STATISTIC that fill whole blocks. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.compare.sample import Ints, Sample, Windows
from analysis.compare.shares import share_difference
from analysis.compare.sums import ratio_of_sums
from analysis.compare.times import mean_log_ratio
from analysis.metrics import Metric, quantile_of, split
from analysis.policy import Blocks
from analysis.statistics.blocks import block_of, tail_pairs


@dataclass(frozen=True, slots=True)
class Cut:
    """One METRIC.STATISTIC's windows in full blocks."""

    metric: Metric
    statistic: str
    windows: Windows
    block: Ints
    span_s: float

    @property
    def until_s(self) -> int:
        """Later windows are in no full block yet."""
        return int(self.windows.starts[-1]) + 1

    @property
    def histograms(self) -> tuple[str, int]:
        """Which histograms it reads: its metric's, over its own full blocks."""
        return self.metric.name, self.until_s

    @property
    def p(self) -> float | None:
        """Which quantile, if it is one."""
        return quantile_of(self.statistic)


def cut(name: str, figures: Mapping[str, Windows], blocks: Blocks) -> Cut | None:
    """What fills a block; None where nothing does."""
    metric, statistic = split(name)
    windows = figures.get(metric.name)
    if windows is None:
        return None
    every, least = (1, blocks.pairs or 1) if blocks.by == "count" else _by_time(blocks)
    p = quantile_of(statistic)
    least = least if p is None else max(least, tail_pairs(p))
    block = block_of(windows.starts, windows.n, every, least)
    if block.max() < 0 or not windows.sum_w[block >= 0].sum() > 0:
        return None
    full = windows.where(block >= 0)
    span_s = float(full.starts[-1] + blocks.window_seconds - full.starts[0])
    return Cut(metric, statistic, full, block[block >= 0], span_s)


def _by_time(blocks: Blocks) -> tuple[int, int]:
    return int(blocks.every), blocks.min_pairs


def sums(of: Cut) -> Sample:
    """The sample of a statistic that is no quantile."""
    if of.metric.kind == "share":
        return share_difference(of.windows, of.block, of.span_s)
    if of.metric.kind == "ratio":
        return ratio_of_sums(of.windows, of.block, of.span_s)
    return mean_log_ratio(of.windows, of.block, of.span_s)
