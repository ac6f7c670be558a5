"""docs/metrics.md and metrics.toml say the same, and names are read strictly."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.metrics import FAMILIES, metrics, split

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_documented_table_is_the_list():
    """A row a metric in the list's order, each cell as it stands in metrics.toml."""
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in DOCS.read_text("utf-8").splitlines()
        if line.startswith("| `")
    ]
    listed = [
        [f"`{m.name}`", m.unit, m.better, m.family, m.formula, m.undefined, m.same_as]
        for m in metrics().values()
    ]
    assert rows == listed


def test_names_are_read_strictly():
    """METRIC.STATISTIC, by the metric's kind."""
    metric, statistic = split("tokens_per_s.ratio")
    assert (metric.better, statistic) == ("higher", "ratio")
    for wrong in ("tpot", "tpot.rate", "failure.p95", "nothing.mean"):
        with pytest.raises(ValueError, match="there is no such"):
            split(wrong)
    with pytest.raises(ValueError, match="client_wait is stored with each answer, but not judged"):
        split("client_wait.p95")
    assert {metric.family for metric in metrics().values()} == set(FAMILIES)
