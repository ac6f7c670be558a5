"""What mirroring costs the primary: told with an interval once it is known, and not before."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from analysis.cost import Period, cost_of, merged, mirroring_cost, sentence
from analysis.report import document, markdown

from .world import EPOCH_S, T0


def periods(count: int, cost: float, seed: int = 1, on: int = 95, off: int = 5) -> list[Period]:
    """Log-normal times around 100 ms whose level drifts; with mirroring they are longer by `cost`."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        level = math.log(100) + rng.normal(0, 0.3)
        made.append(
            Period(
                on,
                off,
                float(rng.normal(level + math.log1p(cost), 0.1, on).sum()),
                float(rng.normal(level, 0.1, off).sum()),
            )
        )
    return made


@pytest.mark.parametrize("cost", [0.0, 0.05, 0.3])
def test_the_cost_is_within_its_interval(cost):
    """Of 40 series of 60 windows nearly all hold it, at whatever level the load was."""
    held = [cost_of(periods(60, cost, seed))["interval"] for seed in range(40)]
    assert sum(low <= cost <= high for low, high in held) >= 38


def test_a_cost_is_told_apart_from_none():
    """10 % more after a hundred windows: the interval lies above zero, and the sentence says so."""
    told = cost_of(periods(100, 0.1))
    assert told["interval"][0] > 0
    assert told["delta"] == pytest.approx(0.1, abs=0.03)
    assert told["reason"] == ""
    assert told["requests"] == {"on": 9500, "off": 500}
    assert sentence(told).startswith("With mirroring the primary's time to the first token is +")


@pytest.mark.parametrize("count", [0, 1, 8])
def test_too_few_windows_are_not_known_yet(count):
    """No number poses as knowledge."""
    told = cost_of(periods(count, 0.1))
    assert told["interval"] == [None, None]
    assert told["reason"].startswith(f"not known yet: {count} of the 9 or more")
    assert "not known yet" in sentence(told)
    json.dumps(told, allow_nan=False)


def test_equal_blocks_are_no_certainty():
    """A hundred windows without any spread still have an interval of some width."""
    low, high = cost_of([Period(10, 10, 46.0, 46.0)] * 100)["interval"]
    assert low < 0 < high


def test_thin_periods_are_joined():
    """Until both sides have five requests; what is left over is no block."""
    thin = [Period(10, 2, 46.0, 9.2)] * 7
    blocks = merged(thin)
    assert [block.off_n for block in blocks] == [6, 6]


def traffic(world, count: int, cost: float) -> None:
    """Per period of 400 s 20 requests of the primary with mirroring, 6 without, some of neither."""
    rng = np.random.default_rng(3)
    first = -(-EPOCH_S // 400) * 400 - EPOCH_S
    for period in range(count):
        begin, level = first + 400 * period, 100 * math.exp(rng.normal(0, 0.3))
        for n in range(32):
            mirroring = "on" if n < 20 else "off" if n < 26 else "after" if n < 30 else "ending"
            more = {"on": 1 + cost, "off": 1.0}.get(mirroring, 9.0)
            failed = n == 31
            world.exchange(
                begin + n, f"p{period}-{n}", "primary", mirroring=mirroring, failure=int(failed),
                ttft_any_ms=level * more * math.exp(rng.normal(0, 0.02)),
            )  # fmt: skip


def test_from_the_store_to_the_report(world):
    """Only on and off count, once however often they came; JSON and Markdown tell it."""
    from dataclasses import replace

    settings = replace(world.settings(control=None), off_period_s=400.0)
    traffic(world, 30, 0.2)
    rows = world.pending_rows
    world.store()
    world.store(rows[:100])
    told = mirroring_cost(world.client, settings, T0 + 5 * 3600 * 10**9)
    assert told["requests"] == {"on": 600, "off": 180}
    assert told["blocks"] == 30
    assert told["delta"] == pytest.approx(0.2, abs=0.01)
    assert told["interval"][0] > 0.15
    tree = document(settings, {}, {}, {}, None, {"mirroring": told})
    assert tree["cost"]["mirroring"] == told
    assert "## What mirroring costs\n\nWith mirroring the primary's" in markdown(tree)


def test_without_windows_it_says_why(world):
    """`isolation: off`: nothing is read, and the report says what is missing."""
    told = mirroring_cost(world.client, world.settings(), T0)
    assert told == {
        "reason": "not known: `isolation: off`, or a tap, leaves no time without mirroring"
    }
    assert sentence(told).endswith("leaves no time without mirroring.")


def test_a_period_without_shadow_off_answers_is_joined(world):
    """The store has no sum over none: the period counts as one with nothing on that side."""
    from dataclasses import replace

    settings = replace(world.settings(control=None), off_period_s=400.0)
    for n in range(20):
        world.exchange(n, f"p{n}", "primary", mirroring="on")
    world.store()
    told = mirroring_cost(world.client, settings, T0 + 3600 * 10**9)
    assert (told["blocks"], told["delta"]) == (0, None)
