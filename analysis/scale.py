"""From the scale of harm to what a report shows: fractions of the reference, or shares."""

from __future__ import annotations

import math

from analysis.bounds import Bounds, side
from analysis.compare.sample import Sample
from analysis.metrics import Metric

Ends = tuple[float, float]


def shown_delta(metric: Metric, estimate: float) -> float:
    """A log-ratio as a fraction (ln 1.05 -> 0.05); a difference of shares as it is."""
    if metric.kind == "share":
        return estimate
    return math.expm1(estimate) if estimate < 700 else math.inf


def shown_interval(metric: Metric, limits: Bounds) -> Ends:
    """The deciding bounds, low end first, in the unit of delta; an open end is infinite."""
    low, high = limits.harm_low, limits.harm_high
    if side(metric) < 0:
        low, high = -high, -low
    shown = shown_delta(metric, low), shown_delta(metric, high)
    return (-math.inf if math.isinf(low) else shown[0], math.inf if math.isinf(high) else shown[1])


def shown_value(metric: Metric, value: float) -> str:
    """`12.3 ms`, `41 tokens/s`, `0.40 %`; `-` where it is not known."""
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "failed"
    if metric.kind == "share":
        return f"{value:.2%}"
    return f"{value:.{_digits(value)}f} {metric.unit}"


def _digits(value: float) -> int:
    return 0 if value >= 100 else 1 if value >= 10 else 2


def shown_change(metric: Metric, fraction: float) -> str:
    """`+12.0 %`, or `+0.30 pp`; `?` for an open end."""
    if not math.isfinite(fraction):
        return "?"
    return f"{fraction * 100:+.2f} pp" if metric.kind == "share" else f"{fraction * 100:+.1f} %"


def shown_ends(metric: Metric, sample: Sample | None, limits: Bounds | None) -> str:
    """`-2.1 % to +4.9 %`; `-` where there is none."""
    if sample is None or limits is None or not math.isfinite(sample.estimate):
        return "-"
    low, high = shown_interval(metric, limits)
    return f"{shown_change(metric, low)} to {shown_change(metric, high)}"
