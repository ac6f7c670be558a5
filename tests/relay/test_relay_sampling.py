"""Sampling: one number a request, so that rates nest, repeat and are fair."""

from __future__ import annotations

from shadow.choosing.sampling import Sampler, new_pair_id

PAIRS = [f"{n:032x}" for n in range(20_000)]


def test_rates_nest():
    """What 5 % sees is a part of what 10 % sees; at 1 everything is seen, at 0 nothing."""
    drawn = [Sampler("e").draw(pair) for pair in PAIRS]
    assert {n for n, u in enumerate(drawn) if u < 0.05} < {
        n for n, u in enumerate(drawn) if u < 0.10
    }
    assert all(0 <= u < 1 for u in drawn)


def test_the_same_everywhere():
    """A value that another process, or version, must draw too."""
    assert Sampler("e").draw(PAIRS[1]) == Sampler("e").draw(PAIRS[1]) == EXPECTED


EXPECTED = 0.8721889672876211


def test_it_is_uniform():
    """Within five standard errors of the rate, at several rates."""
    drawn = [Sampler("e").draw(pair) for pair in PAIRS]
    for rate in (0.01, 0.25, 0.5, 0.9):
        share = sum(u < rate for u in drawn) / len(drawn)
        assert abs(share - rate) < 5 * (rate * (1 - rate) / len(drawn)) ** 0.5


def test_experiments_choose_independently():
    """Of what one experiment samples at 50 %, another samples half."""
    one, other = Sampler("one"), Sampler("other")
    chosen = [pair for pair in PAIRS if one.draw(pair) < 0.5]
    assert 0.45 < sum(other.draw(pair) < 0.5 for pair in chosen) / len(chosen) < 0.55


def test_pair_ids():
    """32 hex digits, never twice."""
    ids = {new_pair_id() for _ in range(10_000)}
    assert len(ids) == 10_000
    assert all(len(pair) == 32 and int(pair, 16) >= 0 for pair in ids)
