"""What two engine options do alone and together, where candidates try out all four combinations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from typing import Any

from analysis.statistics.factorial import factorial

Tree = Mapping[str, Any]


def factors(tried: Mapping[str, Mapping[str, str]], parts: Mapping[str, Tree]) -> list[Tree]:
    """A tree for each two options that one candidate has alone, another alone, a third together.

    Point estimates on the log scale, told as ratios less 1; the reference has neither option. They
    have no interval, and no verdict rests on them.

    Args:
        tried: each arm's options, name to level.
        parts: the candidates' parts of the report.
    """
    by_options = {frozenset(tried.get(name, {}).items()): name for name in parts}
    single = sorted(next(iter(options)) for options in by_options if len(options) == 1)
    return [
        _tree(a, b, [by_options[frozenset(options)] for options in ([a], [b], [a, b])], parts)
        for a, b in combinations(single, 2)
        if a[0] != b[0] and frozenset([a, b]) in by_options
    ]


def _tree(
    a: tuple[str, str], b: tuple[str, str], arms: list[str], parts: Mapping[str, Tree]
) -> Tree:
    metrics = {}
    for name in parts[arms[0]]["metrics"]:
        told = [parts[arm]["metrics"].get(name, {}) for arm in arms]
        deltas = [one["delta"] for one in told if one.get("unit") == "ratio"]
        if len(deltas) == len(arms) and all(delta is not None and delta > -1 for delta in deltas):
            found = factorial(0.0, *(math.log1p(delta) for delta in deltas))
            metrics[name] = {
                "simple": [math.expm1(found.simple_a), math.expm1(found.simple_b)],
                "main": [math.expm1(found.main_a), math.expm1(found.main_b)],
                "interaction": math.expm1(found.interaction),
                "collective": math.expm1(found.collective),
            }
    return {"options": ["=".join(a), "=".join(b)], "arms": arms, "metrics": metrics}
