"""The one list of metrics, metrics.toml, as frozen values."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

Kind = Literal["time", "ratio", "share", "told"]
Better = Literal["lower", "higher", "either"]
Family = Literal["latency", "quality", "reliability"]

FAMILIES: tuple[Family, ...] = ("latency", "quality", "reliability")
STATISTICS: dict[Kind, tuple[str, ...]] = {
    "time": ("p50", "p90", "p95", "p99", "mean"),
    "ratio": ("ratio",),
    "share": ("rate",),
    "told": (),
}
"""What may stand behind a metric's name, by the metric's kind."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its name and what metrics.toml says of it."""

    name: str
    unit: str
    kind: Kind
    better: Better
    family: Family
    formula: str
    undefined: str
    same_as: str
    probe: bool = False
    """Greedy probes tell it, and nothing else does."""


@cache
def metrics() -> dict[str, Metric]:
    """Every metric by its name, in the file's order."""
    text = files("analysis").joinpath("metrics.toml").read_text("utf-8")
    return {name: Metric(name, **facts) for name, facts in tomllib.loads(text).items()}


def split(name: str) -> tuple[Metric, str]:
    """`ttft_any.p95` -> its metric and the statistic `p95`.

    Raises:
        ValueError: no such metric, no such statistic of it, or one that is not judged.
    """
    metric_name, _, statistic = name.rpartition(".")
    metric = metrics().get(metric_name)
    if metric is None:
        raise ValueError(f"{name}: there is no such metric; docs/metrics.md lists them")
    if metric.kind == "told":
        raise ValueError(f"{name}: {metric_name} is stored with each answer, but not judged")
    if statistic not in STATISTICS[metric.kind]:
        known = ", ".join(f"{metric_name}.{word}" for word in STATISTICS[metric.kind])
        raise ValueError(f"{name}: there is no such statistic; write {known}")
    return metric, statistic


def is_listed(name: str) -> bool:
    """Whether a METRIC.STATISTIC is of the list's metrics, not one's own."""
    return name.rpartition(".")[0] in metrics()


def quantile_of(statistic: str) -> float | None:
    """`p95` -> 0.95; None for a statistic that is no quantile."""
    return int(statistic[1:]) / 100 if statistic[1:].isdigit() else None
