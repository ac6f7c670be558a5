"""The page says what the results hold, with ratios inside one run only."""

import copy

import pytest

from bench.markdown import table, with_spread
from bench.render import OURS, TARGET, page, ratio, verdict

LOADS = {
    "json": {"requests_per_s": 10_000.0, "time_p99_ms": 4.0, "cpu_s_per_1000": 0.1},
    "paced": {"time_p50_ms": 1.0, "time_p99_ms": 2.0, "cpu_s_per_1000": 0.2},
    "streams": {
        "cpu_s": 1.0,
        "ttfb_p50_ms": 1.0,
        "ttfb_p99_ms": 2.0,
        "delay_p50_ms": 0.5,
        "delay_p99_ms": 1.0,
    },
}


def figures(scale):
    return {
        load: {
            name: {"median": value * scale, "low": value * scale, "high": 2 * value * scale}
            for name, value in names.items()
        }
        for load, names in LOADS.items()
    }


def counted(**more):
    return {load: {"answered": 10, "mirrored": 10, **more} for load in LOADS}


RELAY = {
    "at": "2026-01-02T03:04:05+00:00",
    "machine": {"cpu": "A CPU", "cores": 2, "memory_gib": 8, "kernel": "6.1", "python": "3.11.7"},
    "versions": {"envoy": "1.40.0"},
    "missing": {},
    "settings": {
        "rounds": 3, "seconds": 2.0, "connections": 16, "rate_per_s": 1000, "streams": 200, "events": 101, "gap_ms": 20,
    },
    "figures": {"direct": figures(0.1), TARGET: figures(1.0), OURS: figures(0.5), "shadow, relay": figures(0.4)},
    "rounds": {
        TARGET: [counted(), counted()],
        OURS: [
            counted(delivered=9) | {"accounting": {"sampled": 30.0, "captured": 27.0, "dropped(queue_full)": 2.0}, "stream": {"unaccounted": 1}},
            counted(delivered=10) | {"accounting": {"sampled": 30.0, "captured": 30.0}, "stream": {"unaccounted": 0}},
        ],
        "direct": [counted()],
    },
}  # fmt: skip


def test_figures_are_printed_with_their_spread():
    """Three digits; thousands separated; an exact zero stays one."""
    assert with_spread({"median": 12_345.6, "low": 0.01234, "high": 0}) == "12,300 (0.0123 to 0)"


def test_a_table_has_a_rule_and_one_line_a_row():
    """Figures to the right."""
    assert table(["", "a"], [["x", "1"]]) == "|  | a |\n| --- | ---: |\n| x | 1 |"


def test_ratios_are_of_medians_and_to_the_target():
    """Ours over Envoy's; nothing where one is missing."""
    assert ratio(RELAY["figures"], OURS, "json", "cpu_s_per_1000") == pytest.approx(0.5)
    assert ratio(RELAY["figures"], OURS, "json", "unknown") is None


def test_the_verdict_on_the_target_follows_the_figures():
    """Half of Envoy's cost reaches it in each row; one dearer figure is missed in its row alone."""
    assert "missed" not in verdict(RELAY["figures"])
    dearer = copy.deepcopy(RELAY["figures"])
    dearer[OURS]["streams"]["cpu_s"]["median"] = 1.01
    rows = [row for row in verdict(dearer).splitlines() if "missed" in row]
    assert len(rows) == 1
    assert "CPU for the streams" in rows[0]


def test_the_page_sums_up_what_was_delivered():
    """Drops are printed beside the figures, all rounds together."""
    text = page({"relay": RELAY})
    assert f"| {OURS}: full speed | 20 | 20 | 19 |" in text
    assert f"| {TARGET}: full speed | 20 | 20 | - |" in text
    assert "captured 57, dropped(queue_full) 2, sampled 60; unexplained 1." in text


def test_a_missing_program_is_said_loudly():
    """Who reads the page sees which peer is not in it, and how to get it."""
    text = page({"relay": RELAY | {"missing": {"nginx": "apt-get install nginx"}}})
    assert "**nginx was missing: apt-get install nginx.**" in text


def test_without_envoy_there_is_no_ratio():
    """No target, no verdict on it."""
    alone = {name: value for name, value in RELAY["figures"].items() if name != TARGET}
    assert "Beside Envoy" not in page({"relay": RELAY | {"figures": alone}})


def test_single_figures_are_labelled():
    """Collector and report print each figure that they have, in the page's words."""
    told = {key: RELAY[key] for key in ("at", "machine", "versions")} | {"how": "So it was done."}
    text = page(
        {
            "collector": told
            | {"settings": {"stream": "a log"}, "figures": {"exchanges_per_s": 1234.5}},
            "report": told | {"figures": {"report_s": 2.0, "report_by_itself_s": 3.0}},
        }
    )
    assert "| exchanges a second | 1,230 |" in text
    assert "The stream was a log, on the same cores." in text
    assert "| report, store served: s | 2.00 |" in text
    assert text.index("## The collector") < text.index("## The report")


def test_decode_says_whether_its_bound_is_kept():
    """The worst shape decides; a figure above 2.5 is a miss, and is said to be one."""
    shapes = ("short", "long", "usage", "logprobs", "crlf")
    figures = {f"{kind}_{shape}": 2.0 for kind in ("ratio", "us_an_event") for shape in shapes}
    result = {**RELAY, "how": "How.", "figures": figures}
    assert "is kept: 2.00 at most" in page({"decode": result})
    figures["ratio_usage"] = 2.6
    assert "is **missed**: 2.60 at most" in page({"decode": result})
