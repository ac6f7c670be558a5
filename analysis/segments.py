"""Parts of the traffic, for what the whole may hide. Exploratory: no verdict rests on them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.bounds import log_evidence
from analysis.compare.sample import Sample
from analysis.harm import edges, side
from analysis.judge import Judgement
from analysis.policy import Policy
from analysis.scale import change, delta, unit
from analysis.statistics.multiplicity import e_bh
from analysis.words import plain

FALSE_SHARE = 0.1
"""The share of false ones among the parts that are named, in expectation."""
MOST_VALUES = 20
"""Of each segment the most frequent values are looked at."""
COUNTED = ("prompt_tokens", "output_tokens")
STEPS = (256, 1024, 4096, 16384)


@dataclass(frozen=True, slots=True)
class Part:
    """One METRIC.STATISTIC in one part of the traffic."""

    segment: str
    value: str
    name: str
    sample: Sample


def bucket(segment: str, value: str) -> str:
    """A value's part: counts of tokens by steps, cached prefixes by whether there is one."""
    if segment not in {*COUNTED, "cached"}:
        return value
    try:
        count = float(value)
    except ValueError:
        return value
    if not math.isfinite(count):
        return value
    if segment == "cached":
        return "some" if count > 0 else "none"
    below = next((step for step in STEPS if count < step), None)
    return f"below {below:,}" if below else f"{STEPS[-1]:,} and more"


def masks(words: npt.NDArray[Any], segment: str) -> dict[str, npt.NDArray[np.bool_]]:
    """The parts of one segment: for each frequent value which pairs have it, shape (P,)."""
    named = {word: bucket(segment, word) for word in set(words.tolist()) if word}
    parts = np.array([named.get(word, "") for word in words.tolist()], dtype=object)
    frequent = Counter(part for part in parts.tolist() if part).most_common(MOST_VALUES)
    return {value: parts == value for value, _ in frequent}


def explored(parts: list[Part], policy: Policy, judgement: Judgement) -> dict[str, Any]:
    """What the parts say: how many were looked at, which lie beyond their margin, the worst of all.

    Evidence beyond the margin is an e-value a part; e-BH bounds the share of false finds.
    """
    scored = [(_log_e(part, policy), part) for part in parts]
    scored.sort(key=lambda each: (-max(each[0], 0.0), -_excess(each[1], policy)))
    stands = e_bh([log_e for log_e, _ in scored], FALSE_SHARE)
    found = [_told(*each, policy) for each, true in zip(scored, stands, strict=True) if true]
    worst = _told(*scored[0], policy) if scored else None
    return {
        "looked_at": len(scored),
        "false_share": FALSE_SHARE,
        "found": found,
        "worst": worst,
        "disagreement": _disagreement(found, judgement),
    }


def _excess(part: Part, policy: Policy) -> float:
    """Harm as a multiple of the margin: what orders parts of which nothing is sure."""
    metric, _ = policy.metric_of(part.name)
    if not math.isfinite(part.sample.estimate):
        return -math.inf
    edge = edges(metric, policy.metrics[part.name].margin_fraction).fail
    return side(metric) * part.sample.estimate / edge


def _log_e(part: Part, policy: Policy) -> float:
    metric, _ = policy.metric_of(part.name)
    edge = edges(metric, policy.metrics[part.name].margin_fraction).fail
    return log_evidence(part.sample, metric, edge, policy.blocks.planned)


def _told(log_e: float, part: Part, policy: Policy) -> dict[str, Any]:
    metric, _ = policy.metric_of(part.name)
    seen = delta(metric, part.sample.estimate)
    return {
        "segment": part.segment,
        "value": part.value,
        "metric": part.name,
        "delta": seen if math.isfinite(seen) else None,
        "unit": unit(metric),
        "pairs": int(part.sample.pairs),
        "log_e": round(log_e, 3),
    }


def _disagreement(found: list[dict[str, Any]], judgement: Judgement) -> str | None:
    """Where a part lies beyond its margin and the whole of its metric does not."""
    hidden = [one for one in found if judgement.readings[one["metric"]].state != "fail"]
    if not hidden:
        return None
    states = judgement.readings
    told = [f"{sentence(one)} (as a whole {states[one['metric']].state})" for one in hidden]
    return "beyond the margin in a part of the traffic: " + "; ".join(told)


def sentence(one: Mapping[str, Any]) -> str:
    """`e2e.p95 where model is m: +12.0 %`."""
    where = f"{one['metric']} where {one['segment']} is {plain(one['value'])}"
    return f"{where}: {change(one['delta'], one['unit'])} ({one['pairs']:,} pairs)"
