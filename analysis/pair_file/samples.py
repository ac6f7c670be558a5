"""From a file's pairs to samples: one METRIC.STATISTIC of one side against another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.compare.arrays import (
    Arranged,
    mean_sample,
    quantile_sample,
    ratio_sample,
    share_sample,
    usable,
)
from analysis.compare.sample import Floats, Ints, Sample
from analysis.metrics import Metric, quantile_of
from analysis.pair_file.pairs import Pairs
from analysis.policy import Blocks, Policy
from analysis.statistics.blocks import block_of, tail_pairs

PRIMARY, CANDIDATE, CONTROL = 0, 1, 2
Mask = npt.NDArray[np.bool_]
BY_SUMS = "ratio of sums"
BY_LOGS = "mean paired log-ratio"


def column_of(metric: Metric, columns: Mapping[str, Floats]) -> str | None:
    """The key that holds a metric's values; None where no line has one."""
    if metric.name == "failure":
        names = ["ok"]
    else:
        names = [f"{metric.name}_{metric.unit}", metric.name, f"{metric.name}_ms"]
    return next((name for name in names if _measured(columns.get(name))), None)


def _measured(column: Floats | None) -> bool:
    return column is not None and not np.isnan(column).all()


def tokens_per_s_by(columns: Mapping[str, Floats]) -> str | None:
    """How tokens a second are reckoned from what the file has; None where it cannot be."""
    if all(_measured(columns.get(name)) for name in ("output_tokens", "decode_ms")):
        return BY_SUMS
    return BY_LOGS if _measured(columns.get("tokens_per_s")) else None


def measured(metric: Metric, columns: Mapping[str, Floats]) -> bool:
    """Whether any line has a value of it."""
    if metric.name == "tokens_per_s":
        return tokens_per_s_by(columns) is not None
    return column_of(metric, columns) is not None


@dataclass(frozen=True)
class Contrast:
    """One side of one candidate's pairs against another side.

    Attributes:
        pairs: all of them; those of the warm-up are not `judged`.
        judged: which may be judged, shape (P,).
        here, there: PRIMARY, CANDIDATE or CONTROL.
    """

    pairs: Pairs
    judged: Mask
    here: int
    there: int

    def sample(self, policy: Policy, name: str) -> Sample | None:
        """The sample of one METRIC.STATISTIC; None where it fills no block."""
        metric, statistic = policy.metric_of(name)
        if metric.kind == "share":
            return self._share(policy.blocks, metric)
        if metric.kind == "ratio":
            return self._ratio(policy.blocks, metric)
        return self._time(policy.blocks, metric, statistic)

    def _sides(self, key: str | None, failed: float) -> tuple[Floats, Floats]:
        """Both sides' values; what failed has the value `failed`."""
        table = self.pairs.columns.get(key or "")
        if table is None:
            nothing = np.full(len(self.judged), np.nan)
            return nothing, nothing
        ok = self.pairs.columns.get("ok")
        broken = np.zeros(table.shape, bool) if ok is None else ok == 0
        values = np.where(broken, failed, table)
        return values[:, self.here], values[:, self.there]

    def _time(self, blocks: Blocks, metric: Metric, statistic: str) -> Sample | None:
        failed = 0.0 if metric.better == "higher" else np.inf
        x, y = self._sides(column_of(metric, self.pairs.columns), failed)
        return self._of_times(blocks, x, y, statistic)

    def _of_times(self, blocks: Blocks, x: Floats, y: Floats, statistic: str) -> Sample | None:
        p = quantile_of(statistic)
        defined = usable(x, y) & ((x > 0) | (y > 0))
        arranged, kept = self._arranged(blocks, defined, 1 if p is None else tail_pairs(p))
        if arranged is None:
            return None
        if p is None:
            return mean_sample(arranged, x[kept], y[kept])
        return quantile_sample(arranged, x[kept], y[kept], p)

    def _share(self, blocks: Blocks, metric: Metric) -> Sample | None:
        table = self.pairs.columns.get(column_of(metric, self.pairs.columns) or "")
        if table is None:
            return None
        x, y = table[:, self.here], table[:, self.there]
        if metric.name == "failure":
            x, y = 1 - x, 1 - y
        if metric.name == "mismatch" and self.there == PRIMARY:
            y = np.zeros(len(x))  # nothing differs from itself
        arranged, kept = self._arranged(blocks, ~np.isnan(x) & ~np.isnan(y))
        return None if arranged is None else share_sample(arranged, x[kept], y[kept])

    def _ratio(self, blocks: Blocks, metric: Metric) -> Sample | None:
        if metric.name == "tokens_per_s" and tokens_per_s_by(self.pairs.columns) != BY_SUMS:
            return self._of_times(blocks, *self._sides("tokens_per_s", 0.0), "mean")
        x, y = self._sides(column_of(metric, self.pairs.columns), np.nan)
        below, reference_below = 0 * x + 1, 0 * y + 1
        if metric.name == "tokens_per_s":
            tokens, reference_tokens = self._sides("output_tokens", np.nan)
            x, y = tokens - 1, reference_tokens - 1
            below, reference_below = (s / 1000 for s in self._sides("decode_ms", np.nan))
        sides = (x, below, y, reference_below)
        defined = (x >= 0) & (y >= 0) & (below > 0) & (reference_below > 0)
        arranged, kept = self._arranged(blocks, defined)
        if arranged is None:
            return None
        return ratio_sample(
            arranged, (sides[0][kept], sides[1][kept], sides[2][kept], sides[3][kept])
        )

    def _arranged(
        self, blocks: Blocks, defined: Mask, least: int = 1
    ) -> tuple[Arranged | None, Mask]:
        """The pairs in full blocks of so many pairs at least, and which they are."""
        at_s, kept = self.pairs.at_s, self.judged & defined
        owner = _owners(at_s[kept], blocks, least)
        kept[kept] = owner >= 0
        if not kept.any():
            return None, kept
        seen = at_s[kept]
        wide = max(float(seen[-1] - seen[0]), 1e-9)
        return Arranged(owner[owner >= 0], self.pairs.weight[kept], wide, seen), kept


def _owners(at_s: Floats, blocks: Blocks, least: int) -> Ints:
    """Each pair's block, -1 in the last one while it is not full; shape (P,)."""
    if blocks.by == "count":
        size = max(blocks.pairs or 1, least)
        owner = np.arange(len(at_s)) // size
        owner[len(at_s) // size * size :] = -1
        return owner
    slices, inverse, counts = np.unique(
        np.floor(at_s / blocks.every).astype(np.int64), return_inverse=True, return_counts=True
    )
    least = max(blocks.min_pairs, least)
    return block_of(slices, counts.astype(np.float64), 1, least)[inverse]
