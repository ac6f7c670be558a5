"""Values as JSON has them."""

from __future__ import annotations

import math

from analysis.moments import shown


def finite(value: float | None) -> float | None:
    """The value; None for NaN and Infinity, which JSON does not know."""
    return value if value is not None and math.isfinite(value) else None


def moment(seconds: int | None) -> str | None:
    """Seconds since 1970 in ISO 8601, UTC."""
    return None if seconds is None else shown(seconds * 10**9)
