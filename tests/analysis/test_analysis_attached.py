"""The report says how shadow was attached: what the primary is hangs on it."""

from __future__ import annotations

import pytest

from analysis.report.document import document
from analysis.report.markdown import TAPPED, markdown
from analysis.settings import Settings


@pytest.mark.parametrize("attach", ["inline", "tap"])
def test_of_a_tap_the_primary_is_a_replica(attach):
    """report.json names it; the text says it where production did not pass through."""
    settings = Settings("e", "c1", ("fp8",), {"fp8": "x"}, attach=attach)
    tree = document(settings, {}, {}, {})
    assert tree["attach"] == attach
    assert (TAPPED in markdown(tree)) == (attach == "tap")
