"""`make calibrate`: simulate, write docs/calibration.md, fail where a target is missed."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from analysis.statistics.outages import LEVEL_SHARE, blocks_until
from bench.calibration.page import page
from bench.calibration.runs import (
    FAILURES,
    Size,
    errors,
    negative_control,
    outages,
    pairs_needed,
    power,
    rare_bursts,
)
from bench.calibration.traffic import BURSTY, KINDS, Kind
from bench.measure import machine

PAGE = Path(__file__).parents[2] / "docs" / "calibration.md"
PUBLISHED = {
    (0.05, 0.0): (2441, 4560, 15714),
    (0.05, 0.5): (1186, 3024, 10750),
    (0.05, 0.8): (478, 1786, 7608),
    (0.10, 0.0): (584, 1152, 3990),
    (0.10, 0.5): (313, 752, 2968),
    (0.10, 0.8): (130, 450, 1813),
}
"""Pairs of the same estimators in the simulations that the design rests on: mean, p50, p95."""
LEAST_REJECTED = {"independent": 0.95, "bursty": 0.90}
POWERED = ("mean", "p50", "p95", FAILURES)


def say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


def calibrate(runs: int, pairs: int, seed: int) -> dict[str, object]:
    """Everything that the page shows."""
    began_s, size = time.monotonic(), Size(runs, pairs, 100)
    found: dict[str, dict[object, object]] = {
        name: {} for name in ("errors", "family", "power", "needed", "control", "rare")
    }
    for kind in KINDS:
        found["errors"][kind], found["family"][kind] = errors(kind, size, seed)
        found["rare"][kind] = rare_bursts(kind, size, seed)
        found["control"][kind] = negative_control(kind, size, seed)
        say(f"{kind}: {found['family'][kind]}, per request {found['control'][kind]:.0%}")
    for name, kind in (("independent", Kind()), ("bursty", BURSTY)):
        for statistic in POWERED:
            found["power"][name, statistic] = power(kind, statistic, Size(runs, 30_000, 150), seed)
            say(f"power, {name}, {statistic}: {found['power'][name, statistic]}")
    for (slower, alike), published in PUBLISHED.items():
        for statistic, wanted in zip(("mean", "p50", "p95"), published, strict=True):
            needed = pairs_needed(statistic, slower, alike, wanted, runs, seed)
            found["needed"][statistic, slower, alike] = (wanted, needed)
            say(f"needed, {statistic}, {slower:.0%}, {alike}: {needed:,.0f} ({wanted:,})")
    stops = outages(Size(runs, pairs, 100), seed)
    say(f"outages: {stops}")
    facts = {"runs": runs, "pairs": pairs, "seed": seed, "seconds": time.monotonic() - began_s}
    return {
        **found,
        "outages": stops,
        "facts": facts,
        "machine": machine(),
        "numpy": np.__version__,
    }


def missed(found: dict[str, object]) -> list[str]:
    """Every target that was missed, in words."""
    most = 0.05 + 2 * math.sqrt(0.05 * 0.95 / found["facts"]["runs"])
    wrong = [
        f"{kind}, {statistic}: the {side} bound missed in {share:.1%}"
        for kind, by in found["errors"].items()
        for statistic, one in by.items()
        for side, share in (("lower", one.low_missed), ("upper", one.high_missed))
        if share > most
    ]
    wrong += [
        f"{kind}: {family.at_margin:.1%} false rejects"
        for kind, family in found["family"].items()
        if family.at_margin > most
    ]
    wrong += [
        f"{name}, {statistic}: only {share:.1%} correct rejects"
        for (name, statistic), (share, _) in found["power"].items()
        if share < LEAST_REJECTED[name]
    ]
    wrong += [
        f"{statistic}, {slower:.0%}, {alike}: {needed:,.0f} pairs needed, published {wanted:,}"
        for (statistic, slower, alike), (wanted, needed) in found["needed"].items()
        if needed > 1.3 * wanted
    ]
    stops = found["outages"]
    wrong += [
        f"outages that end: {share:.1%} false rejects"
        for share in (stops.equal, stops.burst)
        if share > most
    ]
    if stops.died < 1 or stops.blocks[1] > blocks_until(0.05 / 6 * LEVEL_SHARE):
        wrong.append(f"a death in mid-run: rejected in {stops.died:.1%}, {stops.blocks} blocks")
    if found["control"]["own queue, 20 requests"] <= 0.5:
        wrong.append("the negative control holds: this harness proves nothing")
    return wrong


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.calibration", description=__doc__)
    parser.add_argument("--runs", type=int, default=400, help="of each case (400)")
    parser.add_argument("--pairs", type=int, default=20_000, help="a run (20000)")
    parser.add_argument("--seed", type=int, default=16, help="of everything (16)")
    parser.add_argument("--dry", action="store_true", help="print, write nothing")
    options = parser.parse_args(arguments)
    os.nice(10)
    found = calibrate(options.runs, options.pairs, options.seed)
    wrong = missed(found)
    if not options.dry:
        PAGE.write_text(page(found, wrong))
        say(f"written: {PAGE}")
    for line in wrong:
        say(f"missed: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
