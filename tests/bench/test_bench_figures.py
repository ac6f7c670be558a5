"""Quantiles and spreads are what they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.figures import Spread, over_rounds, quantile, spread

VALUES = st.lists(st.integers(-1000, 1000), min_size=1, max_size=50)


@given(VALUES, st.floats(0.001, 1))
def test_a_quantile_is_the_smallest_value_that_covers_its_share(values, share):
    """At least the share is at or below it; less than the share lies below it."""
    found = quantile(values, share)
    assert found in values
    assert sum(v <= found for v in values) >= share * len(values) - 1e-9
    assert sum(v < found for v in values) < share * len(values) + 1e-9


def test_known_quantiles():
    """Nearest rank, by hand."""
    hundred = list(range(1, 101))
    assert (quantile(hundred, 0.5), quantile(hundred, 0.99), quantile(hundred, 1)) == (50, 99, 100)
    assert quantile([7], 0.0) == 7


@pytest.mark.parametrize(("values", "share"), [([], 0.5), ([1.0], 1.1), ([1.0], -0.1)])
def test_nonsense_is_refused(values, share):
    """No figure is made of nothing."""
    with pytest.raises(ValueError, match="no quantile"):
        quantile(values, share)


def test_a_spread_holds_median_and_extremes():
    """Of an even number the middle of the two."""
    assert spread([4, 1, 3, 2]) == Spread(median=2.5, low=1, high=4)


def test_a_figure_that_one_round_lacks_is_left_out():
    """A median over fewer rounds than the others would not be comparable."""
    assert over_rounds([{"a": 1, "b": 2}, {"a": 3}]) == {"a": Spread(2, 1, 3)}
