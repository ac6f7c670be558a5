"""What goes wrong: at most one fault an answer."""

from __future__ import annotations

from random import Random
from typing import Literal, cast, get_args

from shadow.engine_sim.settings import Settings, fault_rates

Fault = Literal[
    "http_500", "http_429", "in_band_error", "reset", "truncate", "hang", "stall", "empty"
]
FAULTS: tuple[str, ...] = get_args(Fault)


def choose(settings: Settings, draw: Random) -> Fault | None:
    """One of the faults, each with its own rate, or none."""
    mark = draw.random()
    for name, rate in fault_rates(settings).items():
        mark -= rate
        if mark < 0:
            return cast("Fault", name)
    return None
