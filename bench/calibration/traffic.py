"""Seeded traffic whose truth is known: six kinds of dependence, and all of them at once.

Every kind gives logs of both sides' times, shape (R, P) for R runs of P pairs in order of arrival.
Both sides have the same distribution, so every log-ratio's truth is 0. And 0 or 1 for failures.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.signal import lfilter
from scipy.stats import norm

Floats = npt.NDArray[np.float64]

SIGMA = 0.5
"""Of one answer's log time, without waiting."""
ALIKE = 0.5
"""Correlation of a pair's two sides, without waiting."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How requests depend on each other.

    Attributes:
        stalls: share of answers that stall, by a factor that is Pareto(1.2).
        shared, own: deviation of a queue that both sides, or each side alone, waits in (log scale).
        shared_memory, own_memory: after how many requests it is forgotten.
        episode: mean length of stretches on one side in which it is twice as slow; 0: none.
        fragile: the queue's share in what makes an answer fail.
    """

    stalls: float = 0.0
    shared: float = 0.0
    shared_memory: float = 33.0
    own: float = 0.0
    own_memory: float = 20.0
    episode: float = 0.0
    fragile: float = 0.5


KINDS = {
    "independent": Kind(),
    "heavy tails": Kind(stalls=0.01),
    "shared bursts": Kind(shared=0.5),
    "own queue, 20 requests": Kind(own=0.3),
    "own episodes of 300": Kind(episode=300.0),
    "own queue, 200 requests": Kind(own=0.3, own_memory=200.0),
}
BURSTY = Kind(stalls=0.01, shared=0.3, own=0.14, fragile=0.2)
"""Heavy tails, shared load and own queues together."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Logs of both sides' times, and each side's latent readiness to fail; all (R, P)."""

    here: Floats
    there: Floats
    fragile_here: Floats
    fragile_there: Floats


def traffic(
    kind: Kind, runs: int, pairs: int, rng: np.random.Generator, alike: float = ALIKE
) -> Traffic:
    """Draw R runs of P pairs."""
    shape = (runs, pairs)
    request = rng.normal(0, SIGMA * np.sqrt(alike), shape)
    load = _queue(kind.shared, kind.shared_memory, shape, rng)
    sides, fragile = [], []
    for _ in range(2):
        waiting = _queue(kind.own, kind.own_memory, shape, rng) + _episodes(
            kind.episode, shape, rng
        )
        noise = rng.normal(0, SIGMA * np.sqrt(1 - alike), shape)
        stalled = _stalls(kind.stalls, shape, rng)
        sides.append(request + load + waiting + noise + stalled)
        fragile.append(_uniform(waiting, kind, rng))
    return Traffic(sides[0], sides[1], fragile[0], fragile[1])


def _queue(
    deviation: float, memory: float, shape: tuple[int, int], rng: np.random.Generator
) -> Floats:
    """A stationary AR(1) with autocorrelation exp(-lag/memory)."""
    if not deviation:
        return np.zeros(shape)
    keep = np.exp(-1 / memory)
    steps = rng.normal(0, deviation * np.sqrt(1 - keep**2), shape)
    steps[:, 0] = rng.normal(0, deviation, shape[0])
    return np.asarray(lfilter([1.0], [1.0, -keep], steps, axis=1))


def _episodes(length: float, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Twice as slow in stretches of a mean length, a tenth of the time."""
    if not length:
        return np.zeros(shape)
    slow = np.zeros(shape)
    for run in range(shape[0]):
        at, on = -int(rng.exponential(9 * length)), False
        while at < shape[1]:
            upto = at + max(1, int(rng.exponential(length if on else 9 * length)))
            if on:
                slow[run, max(at, 0) : max(upto, 0)] = np.log(2)
            at, on = upto, not on
    return slow


def _stalls(share: float, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    if not share:
        return np.zeros(shape)
    return np.where(rng.random(shape) < share, np.log1p(rng.pareto(1.2, shape)), 0.0)


def _uniform(waiting: Floats, kind: Kind, rng: np.random.Generator) -> Floats:
    """A uniform draw for each answer, small where its side waits: failures come in bursts."""
    own = rng.normal(0, 1, waiting.shape)
    if kind.own:
        mixed = np.sqrt(1 - kind.fragile) * own + np.sqrt(kind.fragile) * waiting / kind.own
        return np.asarray(norm.sf(mixed))
    return np.asarray(norm.sf(own)) * np.where(waiting > 0, 0.5, 1.0)
