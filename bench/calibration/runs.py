"""What is simulated: error levels, coverage, power, pairs needed, and a test that must fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.metrics import quantile_of
from analysis.statistics.blocks import tail_pairs
from bench.calibration.peeking import (
    Looks,
    ShareLooks,
    mean_looks,
    quantile_looks,
    share_looks,
    sign_test_rejects,
)
from bench.calibration.traffic import ALIKE, KINDS, Kind, Traffic, traffic

Mask = npt.NDArray[np.bool_]
CHUNK = 50
"""Runs at once, so that memory stays under 1 GiB."""
ALPHA, PLANNED = 0.05, 100
RATE = 0.02
"""Failures on both sides."""
RARE = 0.002
"""Failures where their detection is asked for, and where bursts of them are a limit."""
FAILURES = "failure.rate"
MARGINS = {"mean": 0.05, "p50": 0.05, "p90": 0.10, "p95": 0.10, "p99": 0.10, FAILURES: 0.005}
"""The family of six that is judged together: all at the reject level / 6."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is simulated."""

    runs: int
    pairs: int
    block: int


@dataclass(frozen=True, slots=True)
class Errors:
    """Of one kind of traffic and one statistic: how often each went wrong, as shares of runs.

    Attributes:
        low_missed: the lower bound, at the 5 % level, ever lay above the truth; that is also how
            often a metric that lies exactly at its margin is rejected when it is judged alone.
        high_missed: the upper bound ever lay below the truth: the false promotes at the boundary.
    """

    low_missed: float
    high_missed: float


@dataclass(frozen=True, slots=True)
class Family:
    """Of one kind of traffic: the six together.

    Attributes:
        at_margin: rejects where each of the six lies exactly at its margin.
        equal: rejects where both sides are equal.
        promoted: promotes of equal sides within the run.
        median_pairs: until those.
    """

    at_margin: float
    equal: float
    promoted: float
    median_pairs: float


def chunks(
    kind: Kind, size: Size, seed: list[int], alike: float = ALIKE
) -> Iterator[tuple[Traffic, int]]:
    """Traffic of all runs, some at a time."""
    for start in range(0, size.runs, CHUNK):
        count = min(CHUNK, size.runs - start)
        rng = np.random.default_rng([*seed, start])
        yield traffic(kind, count, size.pairs, rng, alike), count


def block_for(statistic: str, block: int) -> int:
    """A quantile's blocks are merged until four pairs lie beyond it, as the judge merges them."""
    p = quantile_of(statistic)
    return block if p is None else -(-tail_pairs(p) // block) * block


def looks_of(drawn: Traffic, statistic: str, block: int) -> Looks:
    """A time's looks."""
    p = quantile_of(statistic)
    if p is None:
        return mean_looks(drawn.here, drawn.there, block)
    return quantile_looks(drawn.here, drawn.there, block, p)


def failures(drawn: Traffic, rate: float, reference_rate: float, block: int) -> ShareLooks:
    """The failures' looks."""
    return share_looks(drawn.fragile_here < rate, drawn.fragile_there < reference_rate, block)


def errors(name: str, size: Size, seed: int) -> tuple[dict[str, Errors], Family]:
    """One kind of traffic, looked at after every block."""
    missed: dict[str, list[Mask]] = {statistic: [] for statistic in MARGINS}
    together: list[Mask] = []
    first: list[npt.NDArray[np.float64]] = []
    for drawn, count in chunks(KINDS[name], size, [seed, list(KINDS).index(name)]):
        at_margin, equal = np.zeros((2, count), bool)
        all_pass = np.ones((count, size.pairs // size.block), bool)
        for statistic, margin in MARGINS.items():
            low, high, rejected, wrongly, passes = _judged(drawn, statistic, margin, size.block)
            missed[statistic].append(np.stack([low, high]))
            at_margin |= rejected
            equal |= wrongly
            all_pass &= passes
        together.append(np.stack([at_margin, equal]))
        first.append(_first(all_pass) * size.block)
    shares = {s: np.concatenate(m, axis=1).mean(axis=1) for s, m in missed.items()}
    both, pairs = np.concatenate(together, axis=1).mean(axis=1), np.concatenate(first)
    family = Family(both[0], both[1], float(np.isfinite(pairs).mean()), float(np.median(pairs)))
    return {s: Errors(float(low), float(high)) for s, (low, high) in shares.items()}, family


def _judged(
    drawn: Traffic, statistic: str, margin: float, block: int
) -> tuple[Mask, Mask, Mask, Mask, Mask]:
    """Ever missed below, above; ever rejected at the margin, as equals; passes at each look."""
    apart = ALPHA / len(MARGINS)
    if statistic == FAILURES:
        at, same = failures(drawn, RATE + margin, RATE, block), failures(drawn, RATE, RATE, block)
        return (
            at.fails(margin, ALPHA, PLANNED).any(axis=1),
            at.within(margin, ALPHA, PLANNED).any(axis=1),
            at.fails(margin, apart, PLANNED).any(axis=1),
            same.fails(margin, apart, PLANNED).any(axis=1),
            same.within(margin, ALPHA, PLANNED),
        )
    merged, edge = block_for(statistic, block), np.log1p(margin)
    looks = looks_of(drawn, statistic, merged)
    high, low = looks.high(ALPHA, PLANNED), looks.low(apart, PLANNED)
    return (
        (looks.low(ALPHA, PLANNED) > 0).any(axis=1),
        (high <= 0).any(axis=1),
        (low > 0).any(axis=1),
        (low > edge).any(axis=1),
        _held(high <= edge, merged // block),
    )


def _held(passes: Mask, every: int) -> Mask:
    """At each look what the last merged block said; before the first nothing passes; (R, K)."""
    later = np.repeat(passes, every, axis=1)[:, : passes.shape[1] * every - every + 1]
    return np.pad(later, ((0, 0), (every - 1, 0)))


def _first(crossed: Mask) -> npt.NDArray[np.float64]:
    """How many blocks until the first look that is true; infinite where none is; (R,)."""
    return np.where(crossed.any(axis=1), crossed.argmax(axis=1) + 1.0, np.inf)


def power(kind: Kind, statistic: str, size: Size, seed: int) -> tuple[float, float]:
    """Rejects at twice the margin at the level of a family of six: their share, median pairs."""
    margin, apart = MARGINS[statistic], ALPHA / len(MARGINS)
    needed = []
    for drawn, _ in chunks(kind, size, [seed, 77]):
        if statistic == FAILURES:
            looks = failures(drawn, RARE + 2 * margin, RARE, size.block)
            needed.append(_first(looks.fails(margin, apart, PLANNED)))
            continue
        gap = np.log((1 + 2 * margin) / (1 + margin))
        merged = block_for(statistic, size.block)
        low = looks_of(drawn, statistic, merged).low(apart, PLANNED)
        needed.append(_first(low > -gap) * (merged // size.block))
    pairs = np.concatenate(needed) * size.block
    return float(np.isfinite(pairs).mean()), float(np.median(pairs))


def rare_bursts(name: str, size: Size, seed: int) -> Errors:
    """A limit: failures of 0.2 % that come in bursts, the candidate's at the margin beyond them."""
    margin = MARGINS[FAILURES]
    both = []
    for drawn, _ in chunks(KINDS[name], size, [seed, list(KINDS).index(name)]):
        looks = failures(drawn, RARE + margin, RARE, size.block)
        sides = looks.fails(margin, ALPHA, PLANNED), looks.within(margin, ALPHA, PLANNED)
        both.append(np.stack([side.any(axis=1) for side in sides]))
    low, high = np.concatenate(both, axis=1).mean(axis=1)
    return Errors(float(low), float(high))


@dataclass(frozen=True, slots=True)
class Outages:
    """Of failures whose outages are total: shares of runs, and blocks.

    Attributes:
        equal: rejects, at the 5 % level, where both sides have outages that end as they should.
        burst: rejects where the candidate is down once, for half a block in sixty.
        died: rejects at the level of a family of six where it dies in mid-run, for good.
        blocks: until those, from the death on: the median, and the most of any run.
    """

    equal: float
    burst: float
    died: float
    blocks: tuple[float, float]


def outages(size: Size, seed: int) -> Outages:
    """Outages that end, a burst, a death; 0.2 % of answers fail beside them."""
    rng, margin, blocks = np.random.default_rng([seed, 55]), MARGINS[FAILURES], 200
    shape = (size.runs, blocks)
    sides = [_fails(_down(shape, rng), size.block, rng) for _ in range(2)]
    equal = share_looks(sides[0], sides[1], size.block).fails(margin, ALPHA, PLANNED)
    once = np.zeros((size.runs, 60 * size.block), bool)
    once[:, 30 * size.block : 30 * size.block + size.block // 2] = True
    calm = [
        _fails(np.zeros((size.runs, n), bool), size.block, rng) for n in (60, 60, blocks, blocks)
    ]
    burst = share_looks(calm[0] | once, calm[1], size.block).fails(margin, ALPHA, PLANNED)
    dead = np.arange(blocks * size.block) >= blocks // 2 * size.block
    died = share_looks(calm[2] | dead, calm[3], size.block)
    until = _first(died.fails(margin, ALPHA / len(MARGINS), PLANNED)) - blocks // 2
    return Outages(
        float(equal.any(axis=1).mean()),
        float(burst.any(axis=1).mean()),
        float(np.isfinite(until).mean()),
        (float(np.median(until)), float(until.max())),
    )


def _down(shape: tuple[int, int], rng: np.random.Generator) -> Mask:
    """Blocks of outage: one begins in every fortieth block, and goes on with chance 1/2; (R, K)."""
    down = np.zeros(shape, bool)
    for k in range(shape[1]):
        goes_on = down[:, k - 1] if k else np.zeros(shape[0], bool)
        down[:, k] = rng.random(shape[0]) < np.where(goes_on, 0.5, 1 / 40)
    return down


def _fails(down: Mask, block: int, rng: np.random.Generator) -> Mask:
    """Which answers fail: all in an outage, a few in other blocks; (R, P)."""
    each = np.repeat(down, block, axis=1)
    return np.asarray(each | (rng.random(each.shape) < RARE))


def pairs_needed(
    statistic: str, slower: float, alike: float, published: int, runs: int, seed: int
) -> float:
    """Pairs after which 80 % of runs see a slowdown; independent, one-sided 5 %, no margin."""
    planned = 64
    least = 2 if statistic == "mean" else tail_pairs(float(statistic[1:]) / 100)
    block = max(round(published / planned), least)
    planned = max(round(published / block), 20)
    size = Size(runs, 2 * planned * block, block)
    needed = []
    for drawn, _ in chunks(Kind(), size, [seed, 99, published], alike):
        low = looks_of(drawn, statistic, block).low(ALPHA, planned)
        needed.append(_first(low > -np.log1p(slower)) * block)
    return float(np.quantile(np.concatenate(needed), 0.8, method="inverted_cdf"))


def negative_control(name: str, size: Size, seed: int) -> float:
    """How often the test that takes requests for independent cries wolf on equal sides."""
    rejects: list[Mask] = [
        sign_test_rejects(drawn.here, drawn.there, ALPHA)
        for drawn, _ in chunks(KINDS[name], size, [seed, list(KINDS).index(name)])
    ]
    return float(np.concatenate(rejects).mean())
