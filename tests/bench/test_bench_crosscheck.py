"""AIPerf's records and ours are joined by request, and a bound that is missed is said to be."""

import json
from pathlib import Path

import pytest

from bench.crosscheck import METRICS, RESULT, compare, joined, page, sending_ms

METRIC = METRICS[0]


def record(name, ttft, **more):
    metrics = {"time_to_first_token": {"value": ttft, "unit": "ms"}, **more}
    return {"metadata": {"x_request_id": name}, "metrics": metrics}


def row(name, ttft):
    return {"id": name, "ttft_content_ms": ttft}


def test_requests_are_joined_by_their_id():
    """In any order; one that only one side has, or has twice, is an error and not left out."""
    records, rows = [record("a", 1.0), record("b", 2.0)], [row("b", 2.5), row("a", 1.5)]
    pairs = joined(records, rows)
    assert [(t["time_to_first_token"]["value"], o["ttft_content_ms"]) for t, o in pairs] == [
        (1.0, 1.5),
        (2.0, 2.5),
    ]
    for wrong in (rows[:1], [*rows, row("c", 1)], [*rows, rows[0]]):
        with pytest.raises(RuntimeError, match="in common"):
            joined(records, wrong)


@pytest.mark.parametrize(
    ("theirs", "ours", "within"),
    [
        ([10, 10, 900], [11.9, 8.1, 100], True),  # below 2 ms, one far off
        ([200, 200, 200], [203, 203, 203], True),  # 3 ms are 1.5 %
        ([100, 100, 100], [103, 103, 103], False),
        ([100, 100, 100], [100, 100, None], False),  # one is missing: nothing is within
    ],
)
def test_the_bound(theirs, ours, within):
    """A median absolute difference below 2 ms or 2 %, over all requests."""
    pairs = [(record("", t)["metrics"], row("", o)) for t, o in zip(theirs, ours, strict=True)]
    assert compare(pairs, METRIC)["within"] is within


def test_what_aiperf_says_of_its_own_sending():
    """The parts that it names, as far as it names them."""
    pairs = [
        (
            record("", 1, http_req_sending={"value": 2.0}, http_req_connecting={"value": 3.0})[
                "metrics"
            ],
            {},
        )
    ]
    assert sending_ms(pairs) == 5.0


def test_the_page_is_the_kept_result():
    """docs/crosscheck.md says what was measured, and a miss in bold."""
    result = json.loads(RESULT.read_text())
    assert page(result) == (Path(__file__).parents[2] / "docs" / "crosscheck.md").read_text()
    result["metrics"][0]["within"] = False
    assert "**missed**" in page(result)
