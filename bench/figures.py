"""Quantiles of one load, and medians with their spread over rounds. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

NS_PER_MS = 1e6


def quantile(values: Sequence[float], share: float) -> float:
    """The nearest-rank quantile: the smallest value that `share` of all do not exceed.

    Raises:
        ValueError: no values, or a share outside 0…1.
    """
    if not values or not 0 <= share <= 1:
        raise ValueError(f"no quantile {share} of {len(values)} values")
    ordered = sorted(values)
    rank = -(-len(ordered) * share // 1)
    return ordered[max(0, int(rank) - 1)]


@dataclass(frozen=True, slots=True)
class Spread:
    """One figure over the rounds of a run."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Median, smallest, largest."""
    return Spread(statistics.median(values), min(values), max(values))


def over_rounds(rounds: Iterable[Mapping[str, float]]) -> dict[str, Spread]:
    """Each figure that every round has, as its spread; a figure that one round lacks is left out."""
    rounds = list(rounds)
    names = [name for name in rounds[0] if all(name in figures for figures in rounds)]
    return {name: spread([figures[name] for figures in rounds]) for name in names}
