"""From the scale of harm to what is shown: fractions of the reference, or shares."""

from __future__ import annotations

import math

from analysis.bounds import Bounds
from analysis.harm import side
from analysis.metrics import Metric


def delta(metric: Metric, estimate: float) -> float:
    """A log-ratio as a fraction (ln 1.05 -> 0.05); a difference of shares as it is."""
    if metric.kind == "share":
        return estimate
    return math.expm1(estimate) if estimate < 700 else math.inf


def interval(metric: Metric, limits: Bounds) -> tuple[float, float]:
    """The deciding bounds, low end first, in the unit of delta; an open end is infinite."""
    low, high = limits.harm_low, limits.harm_high
    if side(metric) < 0:
        low, high = -high, -low
    if metric.kind == "share":  # of a difference of shares there is nothing beyond ±1
        low, high = (end if math.isinf(end) else min(max(end, -1.0), 1.0) for end in (low, high))
    return (
        low if math.isinf(low) else delta(metric, low),
        high if math.isinf(high) else delta(metric, high),
    )


def unit(metric: Metric) -> str:
    """What delta, interval and margin are fractions of: `share` or `ratio`."""
    return "share" if metric.kind == "share" else "ratio"


def change(fraction: float | None, of: str) -> str:
    """`+12.0 %`, or `+0.30 pp` of a share; `?` for an open end."""
    if fraction is None or not math.isfinite(fraction):
        return "?"
    digits, word = (2, "pp") if of == "share" else (1, "%")
    shown = round(fraction * 100, digits) + 0.0  # no minus before a zero
    return f"{shown:+.{digits}f} {word}"


def ends(low: float | None, high: float | None, of: str) -> str:
    """`-2.1 % to +4.9 %`; `up to +4.9 %` where the low end is open; nothing where both are."""
    known = [end is not None and math.isfinite(end) for end in (low, high)]
    if all(known):
        return f"{change(low, of)} to {change(high, of)}"
    if any(known):
        return f"up to {change(high, of)}" if known[1] else f"{change(low, of)} or more"
    return ""
