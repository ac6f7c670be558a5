"""When it is said: offsets from a request's arrival, drawn once, so that gaps never drift."""

from __future__ import annotations

import math
from itertools import accumulate
from random import Random

from shadow.engine_sim.settings import Settings


def offsets_s(settings: Settings, draw: Random, count: int) -> list[float]:
    """Seconds from arrival at which each of `count` tokens is due; with none, one time to end at.

    Both times are lognormal with the settings' medians: median * exp(sigma * N(0, 1)).
    """
    first = settings.ttft_ms / 1000 * math.exp(settings.ttft_sigma * draw.gauss(0, 1))
    gap_s = settings.itl_ms / 1000 * settings.slowdown
    gaps = (gap_s * math.exp(settings.itl_sigma * draw.gauss(0, 1)) for _ in range(count - 1))
    return list(accumulate(gaps, initial=first))
